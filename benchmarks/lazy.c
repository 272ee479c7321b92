/* A plain C loop of the lazy GES update, as a stand-in for the machine's limit: same stream, same
   arithmetic as engine/update_kernel.py for the saddle form with binary features, nothing else. */
#include <math.h>
#include <stdint.h>

static const double WINDOW = 1e5, NEGLIGIBLE = 1e-18;

void advance(int64_t steps, int64_t active, int64_t many, const int32_t *phi, const int32_t *next,
             const double *next_b, const double *reward, const double *discount,
             const double *decay, const double *weight, const double *restrict alpha,
             const double *restrict beta, int64_t width, double *g, int32_t *touched,
             uint8_t *is_touched, double *restrict theta, double *restrict omega,
             double *restrict F, double *restrict u, double *restrict delta,
             double *restrict dual, double *restrict step, double *restrict out) {
    double C = 1.0, ee = 0.0;
    int64_t n = 0;
    for (int64_t t = 0; t < steps; t++) {
        const int32_t *f = phi + t * active, *b = next + t * many;
        const double *bw = next_b + t * many;
        double gamma = discount[t], c = decay[t], w = weight[t];
        if (c == 0.0 || C * c < 1.0 / WINDOW || C * c > WINDOW) {
            double largest = 0.0;
            for (int64_t q = 0; q < n; q++) {
                int32_t i = touched[q];
                double gi = g[i];
                double *restrict row = omega + i * width;
                for (int64_t k = 0; k < width; k++) row[k] += F[k] * gi;
                g[i] = gi * C * c;
                if (fabs(g[i]) > largest) largest = fabs(g[i]);
            }
            for (int64_t k = 0; k < width; k++) F[k] = u[k] = 0.0;
            int64_t kept = 0;
            ee = 0.0;
            for (int64_t q = 0; q < n; q++) {
                int32_t i = touched[q];
                if (fabs(g[i]) <= NEGLIGIBLE * largest) {
                    g[i] = 0.0;
                    is_touched[i] = 0;
                } else {
                    double gi = g[i];
                    const double *restrict row = omega + i * width;
                    touched[kept++] = i;
                    ee += gi * gi;
                    for (int64_t k = 0; k < width; k++) u[k] += gi * row[k];
                }
            }
            n = kept;
            C = c = 1.0;
        } else {
            C *= c;
            ee *= c * c;
        }
        double g_phi = 0.0;
        for (int64_t j = 0; j < active; j++) g_phi += g[f[j]];
        for (int64_t k = 0; k < width; k++) {
            delta[k] = reward[t];
            dual[k] = F[k] * g_phi;
        }
        for (int64_t j = 0; j < active; j++) {
            const double *restrict a = theta + f[j] * width, *restrict o = omega + f[j] * width;
            for (int64_t k = 0; k < width; k++) {
                delta[k] -= a[k];
                dual[k] += o[k];
            }
        }
        for (int64_t j = 0; j < many; j++) {
            const double *restrict a = theta + b[j] * width;
            double v = gamma * bw[j];
            for (int64_t k = 0; k < width; k++) delta[k] += v * a[k];
        }
        double e_phi = C * g_phi + w * active, enter = w / C;
        ee += 2.0 * w * C * g_phi + w * w * active;
        for (int64_t k = 0; k < width; k++) {
            double now = c * u[k] + w * dual[k], by = beta[k] * delta[k], pull = beta[k] * dual[k];
            step[k] = alpha[k] * now;
            out[k] = F[k] * enter + pull;
            F[k] += by * C;
            u[k] = now + by * ee - pull * e_phi;
        }
        for (int64_t j = 0; j < active; j++) {
            int32_t i = f[j];
            double *restrict a = theta + i * width, *restrict o = omega + i * width;
            if (!is_touched[i]) {
                is_touched[i] = 1;
                touched[n++] = i;
            }
            g[i] += enter;
            for (int64_t k = 0; k < width; k++) {
                a[k] += step[k];
                o[k] -= out[k];
            }
        }
        for (int64_t j = 0; j < many; j++) {
            double *restrict a = theta + b[j] * width;
            double v = gamma * bw[j];
            for (int64_t k = 0; k < width; k++) a[k] -= v * step[k];
        }
    }
}
