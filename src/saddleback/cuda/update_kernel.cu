// The update of engine/update_kernel.py for learners on a GPU, one thread per learner.
//
// Learners are stored in tiles of 32 that share a rule and a stream: the weights of feature i of a
// tile are adjacent, so a warp reads and writes them in one transaction. All that depends on the
// stream only has been recorded on the CPU (trace_records.py). REAL is double or float. Also
// compiled as C++ for tests without a GPU: no thread depends on another.

typedef REAL real;
typedef unsigned long long address;

enum { TILE = 32, RESCALED = 1, OVERFLOWED = 2 };

struct alignas(16) Step {  // trace_records.NUMBERS
    real reward, discount, decay, weight, C, entry, g_phi, g_delta, e_phi, ee, a_scale, b_scale;
};

struct alignas(16) Offsets {  // trace_records.OFFSETS
    unsigned phi, next, entries, event;
};

struct Group {  // chunk_buffers.GROUP: learners of one rule and run, with the addresses of its chunk
    address steps, offsets, phi_index, phi_value, next_index, next_b, next_x, index, before, after;
    long long count, done, phi_stride, with_omega;
    double td, saddle, correction, dual, gram, shrink, bound, smallest;
};

// Σ factor·values[j]·table[index[j]] over a row, added to ``total`` four at a time.
__device__ inline real add_row(real total, const real* table, const unsigned* index,
                               const real* values, int stride, int n, real factor) {
    int j = 0;
    for (; j + 4 <= n; j += 4) {
        const real a = table[(size_t)index[j] * TILE], b = table[(size_t)index[j + 1] * TILE];
        const real c = table[(size_t)index[j + 2] * TILE], d = table[(size_t)index[j + 3] * TILE];
        total += (factor * values[j * stride] * a + factor * values[(j + 1) * stride] * b) +
                 (factor * values[(j + 2) * stride] * c + factor * values[(j + 3) * stride] * d);
    }
    for (; j < n; j++) total += factor * values[j * stride] * table[(size_t)index[j] * TILE];
    return total;
}

// table[index[j]] += x[j] for one to four rows. No index repeats unless its x is 0, so the reads
// need not wait for the writes.
__device__ inline void add_to_rows(real* table, const unsigned* index, const real* x, int n) {
    real old[4];
    for (int j = 0; j < 4; j++)
        if (j < n) old[j] = table[(size_t)index[j] * TILE];
    for (int j = 0; j < 4; j++)
        if (j < n && x[j] != 0) table[(size_t)index[j] * TILE] = old[j] + x[j];
}

// θ and ω are [tiles, p, TILE]; ``state`` is learner_tiles.STATE, [6, lanes].
extern "C" __global__ void advance_learners(const Group* groups, const int* group_of_tile, long long p,
                                   long long lanes, real* theta, real* omega, real* state,
                                   long long* diverged_at) {
    const long long k = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= lanes || diverged_at[k] >= 0) return;
    const Group group = groups[group_of_tile[k / TILE]];
    if (group.count == 0) return;

    const Step* const __restrict__ steps = (const Step*)group.steps;
    const Offsets* const __restrict__ offsets = (const Offsets*)group.offsets;
    const unsigned* const __restrict__ phi_index = (const unsigned*)group.phi_index;
    const unsigned* const __restrict__ next_index = (const unsigned*)group.next_index;
    const unsigned* const __restrict__ index = (const unsigned*)group.index;
    const real* const __restrict__ phi_value = (const real*)group.phi_value;
    const real* const __restrict__ next_b = (const real*)group.next_b;
    const real* const __restrict__ next_x = (const real*)group.next_x;
    const real* const __restrict__ before = (const real*)group.before;
    const real* const __restrict__ after = (const real*)group.after;
    const int stride = (int)group.phi_stride;
    const real td = (real)group.td, saddle = (real)group.saddle, dual = (real)group.dual;
    const real correction = (real)group.correction, gram = (real)group.gram;
    const real shrink = (real)group.shrink, bound = (real)group.bound;
    const bool with_omega = group.with_omega, learns_omega = dual != 0 || gram != 0;
    const bool with_u = saddle != 0 || correction != 0;

    theta += (k / TILE) * p * TILE + k % TILE;
    omega += (k / TILE) * p * TILE + k % TILE;
    state += k;
    const real alpha = state[0], beta = state[lanes];
    real F = state[2 * lanes], F_theta = state[3 * lanes], s = state[4 * lanes], u = state[5 * lanes];
    real inverse_s = 1 / s;
    long long rescaled = 0;                         // the step at which g was last rescaled
    unsigned first = 0, last = offsets[0].entries;  // and its entries then

    for (long long t = 0; t < group.count; t++) {
        const Step step = steps[t];
        const Offsets at = offsets[t], end = offsets[t + 1];
        const real a = alpha * step.a_scale, b = beta * step.b_scale;

        if (at.event & RESCALED) {  // fold in the postponed sums
            u = 0;
            for (unsigned q = at.entries; q < end.entries; q++) {
                const size_t i = (size_t)index[q] * TILE;
                if (td != 0) theta[i] += F_theta * before[q];
                if (!with_omega) continue;
                const real w = omega[i] + F * before[q];
                if (learns_omega) omega[i] = w;
                if (after[q] != 0) u += after[q] * w;
            }
            F = F_theta = 0;
            u *= s;
            rescaled = t, first = at.entries, last = end.entries;
        }

        // Reads of old values: δ and φᵀω.
        const int n_phi = end.phi - at.phi, n_next = end.next - at.next;
        const unsigned *phi_at = phi_index + at.phi, *next_at = next_index + at.next;
        const real *value_at = phi_value + (size_t)at.phi * stride, *b_at = next_b + at.next;
        real delta = step.reward + F_theta * step.g_delta;
        delta = add_row(delta, theta, phi_at, value_at, stride, n_phi, (real)-1);
        delta = add_row(delta, theta, next_at, b_at, 1, n_next, step.discount);
        real dual_value = F * step.g_phi;
        if (with_omega) dual_value = add_row(dual_value, omega, phi_at, value_at, stride, n_phi, (real)1);

        // Scalars; a learner beyond the bound stops, with the weights it had before.
        dual_value *= s;
        u = step.decay * u + step.weight * dual_value;
        const real step_u = a * u;
        const real size = fabs(delta) * (1 + td * a + dual * b) + fabs(dual_value) + fabs(step_u);
        if (!(size <= bound) || (at.event & OVERFLOWED)) {
            diverged_at[k] = group.done + t + 1;
            if (!(at.event & OVERFLOWED)) {  // add F·g, which is what g was and what entered since
                for (unsigned q = first; q < last; q++) {
                    theta[(size_t)index[q] * TILE] += F_theta * after[q];
                    omega[(size_t)index[q] * TILE] += F * after[q];
                }
                for (long long r = rescaled; r < t; r++)
                    for (unsigned j = offsets[r].phi; j < offsets[r + 1].phi; j++) {
                        const real entered = steps[r].entry * phi_value[(size_t)j * stride];
                        theta[(size_t)phi_index[j] * TILE] += F_theta * entered;
                        omega[(size_t)phi_index[j] * TILE] += F * entered;
                    }
            }
            for (long long i = 0; s != 1 && i < p; i++) omega[i * TILE] *= s;
            F = F_theta = u = 0;
            s = 1;
            break;
        }
        if (shrink != 0) {
            const real sigma = 1 - beta * (shrink * step.b_scale);
            u *= sigma;
            s *= sigma;
            if (fabs(s) < group.smallest || fabs(s) > 1 / group.smallest) {
                for (long long i = 0; i < p; i++) omega[i * TILE] *= s;
                F *= s;
                s = 1;
            }
            inverse_s = 1 / s;
        }
        const real by_theta = a * td * delta, by_omega = b * dual * delta;
        const real pull = b * gram * dual_value;
        const real into_phi = saddle * step_u - F_theta * step.entry;
        const real out_of_phi = F * step.entry + pull * inverse_s;
        F_theta += by_theta * step.C;
        F += by_omega * step.C * inverse_s;
        u += by_omega * step.ee - pull * step.e_phi;

        // Writes: the rows of φ, then of b and x.
        for (int j = 0; j < n_phi; j += 4) {
            real x[4], y[4];
            for (int r = 0; r < 4; r++)
                if (j + r < n_phi) {
                    const real value = value_at[(j + r) * stride];
                    x[r] = value * into_phi;
                    y[r] = -(value * out_of_phi);
                }
            add_to_rows(theta, phi_at + j, x, n_phi - j);
            if (learns_omega) add_to_rows(omega, phi_at + j, y, n_phi - j);
        }
        for (int j = 0; with_u && j < n_next; j += 4) {
            real x[4];
            for (int r = 0; r < 4; r++)
                if (j + r < n_next) {
                    real value = step.discount * saddle * b_at[j + r];
                    if (correction != 0)
                        value += step.discount * correction * next_x[at.next + j + r];
                    x[r] = -(value * step_u);
                }
            add_to_rows(theta, next_at + j, x, n_next - j);
        }
    }
    state[2 * lanes] = F, state[3 * lanes] = F_theta, state[4 * lanes] = s, state[5 * lanes] = u;
}
