// The update of engine/update_kernel.py for learners on a GPU, one thread per learner.
//
// A block of one warp has the learners of a tile, which share a rule and a run. Their weights of a
// feature, a row, are adjacent, so that the warp reads or writes them at once. What depends on the
// stream only is prepared on the CPU, and the block copies a few steps of it at a time to shared
// memory. Sums are in the order of the CPU, and products are not fused with them, so that results
// are the same. REAL is double or float. Tests also compile this as C++.

#ifndef STAGE
#define STAGE extern __shared__ Quad memory[]
#define FIRST threadIdx.x
#define LANES TILE
#endif

typedef REAL real;
typedef unsigned long long address;
enum { TILE = 32, ROW = TILE * sizeof(real), RESCALED = 1, OVERFLOWED = 2, PHI_PADDED = 4, NEXT_PADDED = 8 };

struct alignas(16) Quad { unsigned at[4]; };
struct alignas(16) Four { real at[4]; };
struct alignas(16) Step {  // engine.trace_records.NUMBERS
    real reward, decay, weight, C, entry, g_phi, g_delta, e_phi, ee, a_scale, b_scale, unused;
};
struct alignas(16) Offsets { unsigned phi, next, entries, event; };  // trace_records.OFFSETS
struct Group {  // tile_workers.GROUP: learners of one rule and run, with the addresses of its chunk
    address phi_row, phi_value, next_row, next_c, next_v, steps, offsets, index, before, after;
    long long count, done, with_omega;
    double td, saddle, correction, dual, gram, shrink, gram_theta, hybrid, bound, smallest;
};

template <class T>
__device__ inline void copy(T* to, const T* from, unsigned n) {
    for (unsigned i = FIRST; i < n; i += LANES) to[i] = from[i];
}

template <class T>  // of a multiple of 16 bytes in all
__device__ inline void copy_wide(T* to, address from, unsigned first, unsigned n) {
    copy((Quad*)to, (const Quad*)((const T*)from + first), n * sizeof(T) / sizeof(Quad));
}

// The weights of a learner: one in each row of its tile, at an offset of ``lane`` bytes.
struct Weights {
    char* tile;
    unsigned lane;
    __device__ inline real& operator[](unsigned i) const { return *(real*)(tile + (i * ROW + lane)); }
};

// N weights of a learner, all read at once. No row repeats, except that of padding, with value 0.
template <int N>
struct Rows {
    unsigned row[N];
    real weight[N];

    __device__ inline void read(const Weights& weights, const unsigned* rows) {
#pragma unroll
        for (int j = 0; j < N; j++) weight[j] = weights[row[j] = ((const Quad*)rows)[j / 4].at[j % 4]];
    }

    // Add ±Σ values·weight to ``total``, four at a time as on the CPU; the last four may be padded.
    template <int SIGN>
    __device__ inline real dot(real total, const real* values, bool padded) const {
#pragma unroll
        for (int j = 0; j < N; j += 4) {
            const Four v = *(const Four*)(values + j);
            const real x = SIGN * (v.at[0] * weight[j]), y = SIGN * (v.at[1] * weight[j + 1]);
            const real z = SIGN * (v.at[2] * weight[j + 2]), last = SIGN * (v.at[3] * weight[j + 3]);
            total = padded && j + 4 == N ? ((total + x) + y) + z : total + ((x + y) + (z + last));
        }
        return total;
    }

    __device__ inline void add(const Weights& weights, const real* values, real factor) const {
#pragma unroll
        for (int j = 0; j < N; j++)
            weights[row[j]] = weight[j] + ((const Four*)values)[j / 4].at[j % 4] * factor;
    }
};

__device__ __noinline__ void fold_scale(const Weights omega, real s, long long p) {
    for (unsigned i = 0; s != 1 && i < p; i++) omega[i] *= s;
}

// Add F·g: the entries first to last of g when it was rescaled, and what entered until step t.
__device__ __noinline__ void fold_trace(const Weights theta, const Weights omega, real F_theta,
                                        real F, const Group& group, unsigned first, unsigned last,
                                        int rescaled, int t) {
    const auto add = [&](unsigned i, real e) { theta[i] += F_theta * e, omega[i] += F * e; };
    const Offsets* const offsets = (const Offsets*)group.offsets;
    for (unsigned q = first; q < last; q++)
        add(((const unsigned*)group.index)[q], ((const real*)group.after)[q]);
    for (int r = rescaled; r < t; r++)
        for (unsigned j = offsets[r].phi; j < offsets[r + 1].phi; j++)
            add(((const unsigned*)group.phi_row)[j],
                ((const Step*)group.steps)[r].entry * ((const real*)group.phi_value)[j]);
}

// θ and ω are [tiles, p + 1, TILE], the last row for padding; ``state`` is learner_tiles.STATE. The
// shared memory has room for max_steps steps and so many entries of their rows and rescaled traces.
extern "C" __global__ void advance_learners(const Group* groups, const int* group_of_tile,
                                            long long p, int max_steps, unsigned max_phi,
                                            unsigned max_next, unsigned max_entries, char* thetas,
                                            char* omegas, real* state, long long* diverged_at) {
    STAGE;
    const Group& group = groups[group_of_tile[blockIdx.x]];
    const real td = (real)group.td, saddle = (real)group.saddle, dual = (real)group.dual;
    const real gram = (real)group.gram, shrink = (real)group.shrink, bound = (real)group.bound;
    const real gram_theta = (real)group.gram_theta;
    const bool with_omega = group.with_omega, learns_omega = dual != 0 || gram != 0;
    const bool with_u = saddle != 0 || group.correction != 0, v_is_c = group.next_v == group.next_c;
    const int count = (int)group.count;

    const size_t tile = blockIdx.x * (size_t)((p + 1) * ROW);
    const Weights theta = {thetas + tile, threadIdx.x * (unsigned)sizeof(real)};
    const Weights omega = {omegas + tile, threadIdx.x * (unsigned)sizeof(real)};
    const size_t lanes = gridDim.x * (size_t)TILE, k = blockIdx.x * (size_t)TILE + threadIdx.x;
    state += k, diverged_at += k;
    const real alpha = state[0], beta = state[lanes];
    real F = state[2 * lanes], F_theta = state[3 * lanes], s = state[4 * lanes], u = state[5 * lanes];
    real inverse_s = 1 / s;
    bool alive = *diverged_at < 0;
    int rescaled = 0;  // the step at which g was last rescaled, and its entries then
    unsigned first = 0, last = count ? ((const Offsets*)group.offsets)->entries : 0;

    Step* const steps = (Step*)memory;
    Offsets* const offsets = (Offsets*)(steps + max_steps);
    real* const phi_value = (real*)(offsets + max_steps + 1);
    real *const next_c = phi_value + max_phi, *const next_v = next_c + (v_is_c ? 0 : max_next);
    real *const befores = next_c + 2 * max_next, *const afters = befores + max_entries;
    unsigned* const phi_row = (unsigned*)(afters + max_entries);
    unsigned *const next_row = phi_row + max_phi, *const indices = next_row + max_next;

    int n = 0;
    for (int begin = 0; begin < count && __any_sync(~0u, alive); begin += n) {
        __syncwarp();
        n = count - begin < max_steps ? count - begin : max_steps;
        copy_wide(offsets, group.offsets, begin, n + 1);
        __syncwarp();
        const Offsets from = offsets[0];
        while (offsets[n].phi - from.phi > max_phi || offsets[n].next - from.next > max_next) n--;
        const unsigned n_phi = offsets[n].phi - from.phi, n_next = offsets[n].next - from.next;
        const unsigned n_entries = offsets[n].entries - from.entries;
        copy_wide(steps, group.steps, begin, n);
        copy_wide(phi_row, group.phi_row, from.phi, n_phi);
        copy_wide(phi_value, group.phi_value, from.phi, n_phi);
        copy_wide(next_row, group.next_row, from.next, n_next);
        copy_wide(next_c, group.next_c, from.next, n_next);
        if (!v_is_c) copy_wide(next_v, group.next_v, from.next, n_next);
        const unsigned* index = (const unsigned*)group.index + from.entries;
        const real* before = (const real*)group.before + from.entries;
        const real* after = (const real*)group.after + from.entries;
        if (n_entries <= max_entries) {  // else they are read where they are
            copy(indices, index, n_entries), index = indices;
            copy(befores, before, n_entries), before = befores;
            copy(afters, after, n_entries), after = afters;
        }
        __syncwarp();

        for (int r = 0; alive && r < n; r++) {
            const Step& step = steps[r];
            const Offsets at = offsets[r], end = offsets[r + 1];
            const real a = alpha * step.a_scale, b = beta * step.b_scale;

            if (at.event & RESCALED) {  // fold in the postponed sums
                u = 0;
#pragma unroll 4
                for (unsigned q = at.entries - from.entries; q < end.entries - from.entries; q++) {
                    if (td != 0) theta[index[q]] += F_theta * before[q];
                    if (!with_omega) continue;
                    const real w = omega[index[q]] + F * before[q];
                    if (learns_omega) omega[index[q]] = w;
                    if (after[q] != 0) u += after[q] * w;
                }
                F = F_theta = 0, u *= s;
                rescaled = begin + r, first = at.entries, last = end.entries;
            }

            // Reads of old values: δ and φᵀω.
            const int phi = at.phi - from.phi, phi_end = end.phi - from.phi;
            const int next = at.next - from.next, next_end = end.next - from.next;
            real delta = step.reward + F_theta * step.g_delta, dual_value = F * step.g_phi;
            Rows<4> of_theta, of_omega;
#pragma unroll 1
            for (int j = phi; j < phi_end; j += 4) {
                const bool padded = (at.event & PHI_PADDED) && j + 4 == phi_end;
                of_theta.read(theta, phi_row + j);
                if (with_omega) of_omega.read(omega, phi_row + j);
                delta = of_theta.dot<-1>(delta, phi_value + j, padded);
                if (with_omega) dual_value = of_omega.dot<1>(dual_value, phi_value + j, padded);
            }
            const bool padded = at.event & NEXT_PADDED;
            int j = next;
#pragma unroll 1
            for (Rows<12> x; j + 12 <= next_end; j += 12) {
                x.read(theta, next_row + j);
                delta = x.dot<1>(delta, next_c + j, padded && j + 12 == next_end);
            }
#pragma unroll 1
            for (Rows<4> x; j < next_end; j += 4) {
                x.read(theta, next_row + j);
                delta = x.dot<1>(delta, next_c + j, padded && j + 4 == next_end);
            }

            // Scalars; a learner beyond the bound stops, with the weights it had before.
            dual_value *= s;
            u = step.decay * u + step.weight * dual_value;
            const real step_u = a * u;
            const real size = fabs(delta) * (1 + td * a + dual * b) + fabs(dual_value) + fabs(step_u);
            if (!(size <= bound) || (at.event & OVERFLOWED)) {
                alive = false;
                *diverged_at = group.done + begin + r + 1;
                if (!(at.event & OVERFLOWED))
                    fold_trace(theta, omega, F_theta, F, group, first, last, rescaled, begin + r);
                fold_scale(omega, s, p);
                F = F_theta = u = 0, s = 1;
                break;
            }
            if (shrink != 0) {
                const real sigma = 1 - beta * (shrink * step.b_scale);
                u *= sigma, s *= sigma;
                if (fabs(s) < group.smallest || fabs(s) > 1 / group.smallest) {
                    fold_scale(omega, s, p);
                    F *= s, s = 1;
                    if (phi < phi_end) of_omega.read(omega, phi_row + phi);
                }
                inverse_s = 1 / s;
            }
            const real by_theta = a * td * delta, by_omega = b * dual * delta, pull = b * gram * dual_value;
            const real into_phi = saddle * step_u + a * gram_theta * dual_value - F_theta * step.entry;
            const real out_of_phi = F * step.entry + pull * inverse_s;
            F_theta += by_theta * step.C;
            F += by_omega * step.C * inverse_s;
            u += by_omega * step.ee - pull * step.e_phi;

            // Writes: the rows of φ, which were read before if they are only four; then of b and x.
#pragma unroll 1
            for (int j = phi; j < phi_end; j += 4) {
                if (phi_end - phi > 4) of_theta.read(theta, phi_row + j), of_omega.read(omega, phi_row + j);
                of_theta.add(theta, phi_value + j, into_phi);
                if (learns_omega) of_omega.add(omega, phi_value + j, -out_of_phi);
            }
#pragma unroll 1
            for (int j = with_u ? next : next_end; j < next_end; j += 4) {
                Rows<4> x;
                x.read(theta, next_row + j);
                x.add(theta, next_v + j, -step_u);
            }
        }
    }
    state[2 * lanes] = F, state[3 * lanes] = F_theta, state[4 * lanes] = s, state[5 * lanes] = u;
}
