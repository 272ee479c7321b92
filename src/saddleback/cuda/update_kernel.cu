// The update of engine/update_kernel.py for learners on a GPU, one thread per learner.
//
// A block of one warp has the learners of a tile, which share a rule and a run. Their weights of a
// feature are adjacent, so that the warp reads or writes them at once. What depends on the stream
// only is prepared on the CPU (trace_records.py, chunk_buffers.py), and the block copies a few steps
// of it at a time to shared memory. REAL is double or float. Sums are in the order of the CPU, and
// products are not fused with them, so that results are the same. Tests compile this as C++, too.

#ifndef STAGE
#define STAGE extern __shared__ Quad memory[]
#define FIRST threadIdx.x
#define LANES TILE
#endif

typedef REAL real;
typedef unsigned long long address;

enum { TILE = 32, RESCALED = 1, OVERFLOWED = 2, PHI_PADDED = 4, NEXT_PADDED = 8 };

struct alignas(16) Quad {
    unsigned at[4];
};

struct alignas(16) Four {
    real at[4];
};

struct alignas(16) Step {  // trace_records.NUMBERS
    real reward, decay, weight, C, entry, g_phi, g_delta, e_phi, ee, a_scale, b_scale, unused;
};

struct alignas(16) Offsets {  // trace_records.OFFSETS
    unsigned phi, next, entries, event;
};

struct Group {  // chunk_buffers.GROUP: learners of one rule and run, with the addresses of its chunk
    address steps, offsets, phi_row, phi_value, next_row, next_c, next_v, row, before, after;
    long long count, done, with_omega;
    double td, saddle, correction, dual, gram, shrink, bound, smallest;
};

template <class T>
__device__ inline void copy(T* to, const T* from, unsigned n) {
    for (unsigned i = FIRST; i < n; i += LANES) to[i] = from[i];
}

template <class T>  // of multiples of 16 bytes
__device__ inline void copy_wide(T* to, const T* from, unsigned n) {
    copy((Quad*)to, (const Quad*)from, n * sizeof(T) / sizeof(Quad));
}

// The weights of a tile; a row, given by its offset in bytes, is those of a feature.
struct Weights {
    char* tile;
    unsigned lane;
    __device__ inline real& operator[](unsigned row) const { return *(real*)(tile + (row + lane)); }
};

// N weights of a learner, all read at once. No row repeats, except that of padding, with value 0.
template <int N>
struct Rows {
    unsigned row[N];
    real weight[N];

    __device__ inline void read(const Weights& weights, const unsigned* rows) {
#pragma unroll
        for (int j = 0; j < N; j += 4) {
            const Quad four = *(const Quad*)(rows + j);
#pragma unroll
            for (int i = 0; i < 4; i++) weight[j + i] = weights[row[j + i] = four.at[i]];
        }
    }

    // Add ±Σ values·weight to ``total``, four at a time as on the CPU; the last four may be padded.
    template <int SIGN>
    __device__ inline real dot(real total, const real* values, bool padded) const {
#pragma unroll
        for (int j = 0; j < N; j += 4) {
            const Four four = *(const Four*)(values + j);
            real x[4];
#pragma unroll
            for (int i = 0; i < 4; i++) x[i] = SIGN * (four.at[i] * weight[j + i]);
            if (padded && j + 4 == N)
                total = ((total + x[0]) + x[1]) + x[2];
            else
                total += (x[0] + x[1]) + (x[2] + x[3]);
        }
        return total;
    }

    __device__ inline void add(const Weights& weights, const real* values, real factor) const {
#pragma unroll
        for (int j = 0; j < N; j += 4) {
            const Four four = *(const Four*)(values + j);
#pragma unroll
            for (int i = 0; i < 4; i++) weights[row[j + i]] = weight[j + i] + four.at[i] * factor;
        }
    }
};

// Multiply ω by its scale.
__device__ __noinline__ void fold_scale(const Weights omega, real s, long long p) {
    for (unsigned i = 0; s != 1 && i < p; i++) omega[i * TILE * (unsigned)sizeof(real)] *= s;
}

// Add F·g: the entries first to last of g when it was rescaled, and what entered until step t.
__device__ __noinline__ void fold_trace(const Weights theta, const Weights omega, real F_theta, real F,
                                        const Group& group, unsigned first, unsigned last,
                                        int rescaled, int t) {
    const Offsets* const offsets = (const Offsets*)group.offsets;
    for (unsigned q = first; q < last; q++) {
        const unsigned i = ((const unsigned*)group.row)[q];
        theta[i] += F_theta * ((const real*)group.after)[q];
        omega[i] += F * ((const real*)group.after)[q];
    }
    for (int r = rescaled; r < t; r++)
        for (unsigned j = offsets[r].phi; j < offsets[r + 1].phi; j++) {
            const unsigned i = ((const unsigned*)group.phi_row)[j];
            const real entered = ((const Step*)group.steps)[r].entry * ((const real*)group.phi_value)[j];
            theta[i] += F_theta * entered;
            omega[i] += F * entered;
        }
}

// θ and ω are [tiles, p + 1, TILE], the last row for padding; ``state`` is learner_tiles.STATE. The
// shared memory has room for max_steps steps and so many entries of their rows and rescaled traces.
extern "C" __global__ void advance_learners(const Group* groups, const int* group_of_tile,
                                            long long p, int max_steps, unsigned max_phi, unsigned max_next,
                                            unsigned max_entries, char* thetas, char* omegas, real* state,
                                            long long* diverged_at) {
    STAGE;
    const long long lanes = (long long)gridDim.x * TILE, k = (long long)blockIdx.x * TILE + threadIdx.x;
    const Group& group = groups[group_of_tile[blockIdx.x]];
    const real td = (real)group.td, saddle = (real)group.saddle, dual = (real)group.dual;
    const real gram = (real)group.gram, shrink = (real)group.shrink, bound = (real)group.bound;
    const bool with_omega = group.with_omega, learns_omega = dual != 0 || gram != 0;
    const bool with_u = saddle != 0 || group.correction != 0;
    const bool v_is_c = group.next_v == group.next_c;
    const int count = (int)group.count;

    const size_t tile = blockIdx.x * ((p + 1) * TILE * sizeof(real));
    const Weights theta = {thetas + tile, threadIdx.x * (unsigned)sizeof(real)};
    const Weights omega = {omegas + tile, threadIdx.x * (unsigned)sizeof(real)};
    const real alpha = state[k], beta = state[lanes + k];
    real F = state[2 * lanes + k], F_theta = state[3 * lanes + k];
    real s = state[4 * lanes + k], u = state[5 * lanes + k];
    real inverse_s = 1 / s;
    bool alive = diverged_at[k] < 0;
    int rescaled = 0;  // the step at which g was last rescaled, and its entries then
    unsigned first = 0, last = count ? ((const Offsets*)group.offsets)->entries : 0;

    Step* const steps = (Step*)memory;
    Offsets* const offsets = (Offsets*)(steps + max_steps);
    real* const phi_value = (real*)(offsets + max_steps + 1);
    real* const next_c = phi_value + max_phi;
    real* const next_v = next_c + (v_is_c ? 0 : max_next);
    real* const befores = next_c + 2 * max_next;
    real* const afters = befores + max_entries;
    unsigned* const phi_row = (unsigned*)(afters + max_entries);
    unsigned* const next_row = phi_row + max_phi;
    unsigned* const rows = next_row + max_next;

    int n = 0;
    for (int begin = 0; begin < count && __any_sync(~0u, alive); begin += n) {
        __syncwarp();
        n = count - begin < max_steps ? count - begin : max_steps;
        copy_wide(offsets, (const Offsets*)group.offsets + begin, n + 1);
        __syncwarp();
        const Offsets from = offsets[0];
        while (offsets[n].phi - from.phi > max_phi || offsets[n].next - from.next > max_next) n--;
        const Offsets to = offsets[n];
        copy_wide(steps, (const Step*)group.steps + begin, n);
        copy_wide(phi_row, (const unsigned*)group.phi_row + from.phi, to.phi - from.phi);
        copy_wide(phi_value, (const real*)group.phi_value + from.phi, to.phi - from.phi);
        copy_wide(next_row, (const unsigned*)group.next_row + from.next, to.next - from.next);
        copy_wide(next_c, (const real*)group.next_c + from.next, to.next - from.next);
        if (!v_is_c) copy_wide(next_v, (const real*)group.next_v + from.next, to.next - from.next);
        const unsigned* row = (const unsigned*)group.row + from.entries;
        const real* before = (const real*)group.before + from.entries;
        const real* after = (const real*)group.after + from.entries;
        if (to.entries - from.entries <= max_entries) {  // else they are read where they are
            copy(rows, row, to.entries - from.entries);
            copy(befores, before, to.entries - from.entries);
            copy(afters, after, to.entries - from.entries);
            row = rows, before = befores, after = afters;
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
                    if (td != 0) theta[row[q]] += F_theta * before[q];
                    if (!with_omega) continue;
                    const real w = omega[row[q]] + F * before[q];
                    if (learns_omega) omega[row[q]] = w;
                    if (after[q] != 0) u += after[q] * w;
                }
                F = F_theta = 0;
                u *= s;
                rescaled = begin + r, first = at.entries, last = end.entries;
            }

            // Reads of old values: δ and φᵀω.
            const int phi = at.phi - from.phi, phi_end = end.phi - from.phi, next_end = end.next - from.next;
            const bool phi_padded = at.event & PHI_PADDED, next_padded = at.event & NEXT_PADDED;
            real delta = step.reward + F_theta * step.g_delta, dual_value = F * step.g_phi;
            Rows<4> of_theta, of_omega;
#pragma unroll 1
            for (int j = phi; j < phi_end; j += 4) {
                const bool padded = phi_padded && j + 4 == phi_end;
                of_theta.read(theta, phi_row + j);
                if (with_omega) of_omega.read(omega, phi_row + j);
                delta = of_theta.dot<-1>(delta, phi_value + j, padded);
                if (with_omega) dual_value = of_omega.dot<1>(dual_value, phi_value + j, padded);
            }
            int j = at.next - from.next;
#pragma unroll 1
            for (; j + 12 <= next_end; j += 12) {
                Rows<12> x;
                x.read(theta, next_row + j);
                delta = x.dot<1>(delta, next_c + j, next_padded && j + 12 == next_end);
            }
#pragma unroll 1
            for (; j < next_end; j += 4) {
                Rows<4> x;
                x.read(theta, next_row + j);
                delta = x.dot<1>(delta, next_c + j, next_padded && j + 4 == next_end);
            }

            // Scalars; a learner beyond the bound stops, with the weights it had before.
            dual_value *= s;
            u = step.decay * u + step.weight * dual_value;
            const real step_u = a * u;
            const real size = fabs(delta) * (1 + td * a + dual * b) + fabs(dual_value) + fabs(step_u);
            if (!(size <= bound) || (at.event & OVERFLOWED)) {
                alive = false;
                diverged_at[k] = group.done + begin + r + 1;
                if (!(at.event & OVERFLOWED))
                    fold_trace(theta, omega, F_theta, F, group, first, last, rescaled, begin + r);
                fold_scale(omega, s, p);
                F = F_theta = u = 0;
                s = 1;
                break;
            }
            if (shrink != 0) {
                const real sigma = 1 - beta * (shrink * step.b_scale);
                u *= sigma;
                s *= sigma;
                if (fabs(s) < group.smallest || fabs(s) > 1 / group.smallest) {
                    fold_scale(omega, s, p);
                    F *= s;
                    s = 1;
                    if (phi < phi_end) of_omega.read(omega, phi_row + phi);
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
#pragma unroll 1
            for (int j = phi; j < phi_end; j += 4) {
                if (phi_end - phi > 4) of_theta.read(theta, phi_row + j), of_omega.read(omega, phi_row + j);
                of_theta.add(theta, phi_value + j, into_phi);
                if (learns_omega) of_omega.add(omega, phi_value + j, -out_of_phi);
            }
            j = with_u ? at.next - from.next : next_end;
#pragma unroll 1
            for (; j + 12 <= next_end; j += 12) {
                Rows<12> x;
                x.read(theta, next_row + j);
                x.add(theta, next_v + j, -step_u);
            }
#pragma unroll 1
            for (; j < next_end; j += 4) {
                Rows<4> x;
                x.read(theta, next_row + j);
                x.add(theta, next_v + j, -step_u);
            }
        }
    }
    state[2 * lanes + k] = F, state[3 * lanes + k] = F_theta;
    state[4 * lanes + k] = s, state[5 * lanes + k] = u;
}
