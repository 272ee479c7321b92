// The update of engine/update_kernel.py for learners on a GPU, one thread per learner.
//
// A block of one warp has the learners of a tile, which share a rule and a run. Their weights of a
// feature, a row, are adjacent, so that the warp reads or writes them at once. What depends on the
// stream only is prepared on the CPU, and the block copies a few steps of it at a time to shared
// memory. Sums are in the order of the CPU, and products are not fused with them, so that results
// are the same. Tests also compile this as C++. REAL is double or float, and FURTHER is 1 if some
// learners have further traces (engine/explicit_kernel.py). These are lazy here, too: dutch traces
// are d = C D and d' = C' D' with D and D' of each learner, θ = θ̃ + F_θ D and ω = s (ω̃ + F D').

#ifndef STAGE
#define STAGE extern __shared__ Quad memory[]
#define FIRST threadIdx.x
#define LANES TILE
#endif

typedef REAL real;
typedef unsigned long long address;
enum { TILE = 32, ROW = TILE * sizeof(real) };
enum { RESCALED = 1, OVERFLOWED = 2, PHI_PADDED = 4, NEXT_PADDED = 8 };  // trace_records

struct alignas(16) Quad { unsigned at[4]; };
struct alignas(16) Four { real at[4]; };
struct alignas(16) Step {  // engine.trace_records.NUMBERS
    real reward, decay, weight, C, entry, g_phi, g_delta, e_phi, ee, a_scale, b_scale, discount;
};
struct Further : Step {  // and FURTHER_NUMBERS
    real second_decay, second_weight, e_b, second_phi, second_b, second_e, unused[2];
};
#if FURTHER
typedef Further Numbers;
#else
typedef Step Numbers;
#endif
struct alignas(16) Offsets { unsigned phi, next, entries, event; };  // trace_records.OFFSETS
struct Group {  // tile_workers.GROUP: learners of one rule and run, with the addresses of its chunk
    address phi_row, phi_value, next_row, next_c, next_v, steps, offsets, index, before, after;
    long long count, done, with_omega, true_online;
    double td, saddle, correction, dual, gram, shrink, gram_theta, hybrid, bound, smallest;
};

template <class T>  // of a multiple of 16 bytes in all
__device__ inline void copy(T* to, address from, unsigned first, unsigned n) {
    const Quad* const source = (const Quad*)((const T*)from + first);
    for (unsigned i = FIRST; i < n * sizeof(T) / sizeof(Quad); i += LANES) ((Quad*)to)[i] = source[i];
}

// The weights of a learner: one in each row of its tile, at an offset of ``lane`` bytes.
struct Weights {
    char* tile;
    unsigned lane;
    __device__ inline real& operator[](unsigned i) const { return *(real*)(tile + (i * ROW + lane)); }
};

// N weights of a learner, all read at once. No row repeats, except that of padding, with value 0.
template <int N>
struct alignas(16) Rows {
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

    __device__ inline void add(const Weights& weights, const real* values, real factor) {
#pragma unroll
        for (int j = 0; j < N; j++)
            weights[row[j]] = weight[j] += ((const Four*)values)[j / 4].at[j % 4] * factor;
    }
};

__device__ __noinline__ void fold_scale(const Weights omega, real s, long long p) {
    for (unsigned i = 0; s != 1 && i < p; i++) omega[i] *= s;
}

// ``weights`` has θ and ω, and D and D' if there are dutch traces: each [tiles, p + 1, TILE], the
// last row for padding; ``state`` is learner_tiles.STATE. The shared memory has room for max_steps
// steps and so many entries of their rows.
extern "C" __global__ void advance_learners(const Group* groups, const int* group_of_tile,
                                            long long p, int max_steps, unsigned max_phi,
                                            unsigned max_next, char* weights, real* state,
                                            long long* diverged_at) {
    STAGE;
    const Group& group = groups[group_of_tile[blockIdx.x]];
    const real td = (real)group.td, saddle = (real)group.saddle, dual = (real)group.dual;
    const real gram = (real)group.gram, shrink = (real)group.shrink, bound = (real)group.bound;
    const bool true_online = FURTHER && group.true_online, with_omega = group.with_omega;
    const real gram_theta = (real)group.gram_theta;
    const real hybrid = FURTHER && !true_online ? (real)group.hybrid : 0;  // dutch traces replace e'
    const bool learns_omega = dual != 0 || gram != 0 || hybrid != 0;
    const bool dutch_omega = true_online && learns_omega;
    const bool with_u = saddle != 0 || group.correction != 0, v_is_c = group.next_v == group.next_c;
    const int count = (int)group.count;

    const bool learns_theta = td != 0 || true_online;  // along the trace
    const size_t tile = (p + 1) * ROW, table = gridDim.x * tile;
    const auto weights_of = [&](int i) {
        return Weights{weights + (i * table + blockIdx.x * tile), threadIdx.x * (unsigned)sizeof(real)};
    };
    const Weights theta = weights_of(0), omega = weights_of(1);
    const Weights dutch = weights_of(2), dutch_dual = weights_of(3);
    const size_t lanes = gridDim.x * (size_t)TILE, k = blockIdx.x * (size_t)TILE + threadIdx.x;
    state += k, diverged_at += k;
    bool alive = *diverged_at < 0;
    real alpha = alive ? state[0] : 0, beta = alive ? state[lanes] : 0;
    real F = state[2 * lanes], F_theta = state[3 * lanes], s = state[4 * lanes], u = state[5 * lanes];
    real C = state[6 * lanes], C2 = state[7 * lanes], v = state[8 * lanes];
    real predicted = state[9 * lanes], e_dutch = state[10 * lanes], inverse_s = 1 / s;
    // A learner that has diverged goes on with step sizes of 0 until its sums are folded in.
    const auto goes_on = [&] { return alive || (!true_online && (F != 0 || F_theta != 0)); };
    bool active = goes_on();

    Numbers* const steps = (Numbers*)memory;
    Offsets* const offsets = (Offsets*)(steps + max_steps);
    real* const phi_value = (real*)(offsets + max_steps + 1);
    real *const next_c = phi_value + max_phi, *const next_v = next_c + (v_is_c ? 0 : max_next);
    unsigned* const phi_row = (unsigned*)(next_c + 2 * max_next);
    unsigned* const next_row = phi_row + max_phi;

    int n = 0;
    for (int begin = 0; begin < count && __any_sync(~0u, active); begin += n) {
        __syncwarp();
        n = count - begin < max_steps ? count - begin : max_steps;
        copy(offsets, group.offsets, begin, n + 1);
        __syncwarp();
        const Offsets from = offsets[0];
        while (offsets[n].phi - from.phi > max_phi || offsets[n].next - from.next > max_next) n--;
        const unsigned n_phi = offsets[n].phi - from.phi, n_next = offsets[n].next - from.next;
        copy(steps, group.steps, begin, n);
        copy(phi_row, group.phi_row, from.phi, n_phi);
        copy(phi_value, group.phi_value, from.phi, n_phi);
        copy(next_row, group.next_row, from.next, n_next);
        copy(next_c, group.next_c, from.next, n_next);
        if (!v_is_c) copy(next_v, group.next_v, from.next, n_next);
        __syncwarp();

        for (int r = 0; active && r < n; r++) {
            const Numbers& step = steps[r];
            const Further& further = (const Further&)step;  // if there is such a trace
            const Offsets at = offsets[r], end = offsets[r + 1];
            real u_decay = step.decay;

            if (at.event & RESCALED) {  // fold in the postponed sums
                const real by_C = C * step.decay, by_C2 = FURTHER ? C2 * further.second_decay : 0;
                u = u_decay = 0;
#pragma unroll 1
                for (unsigned q = at.entries; q < end.entries; q += 4) {
                    const unsigned* const row = (const unsigned*)group.index + q;
                    const Four before = *(const Four*)((const real*)group.before + q);
                    const Four after = *(const Four*)((const real*)group.after + q);
                    Rows<4> x, y, g, g2;
                    if (learns_theta) x.read(theta, row);
                    if (with_omega) y.read(omega, row);
                    if (true_online) g.read(dutch, row);
                    if (dutch_omega) g2.read(dutch_dual, row);
#pragma unroll
                    for (int j = 0; !true_online && j < 4; j++)
                        g.weight[j] = g2.weight[j] = before.at[j];
                    if (learns_theta) x.add(theta, g.weight, F_theta);
                    if (learns_omega) y.add(omega, g2.weight, F);
#pragma unroll
                    for (int j = 0; j < 4; j++) {
                        const bool kept = after.at[j] != 0;
                        if (with_omega) u += after.at[j] * y.weight[j];
                        if (true_online) dutch[g.row[j]] = kept ? g.weight[j] * by_C : 0;
                        if (dutch_omega) dutch_dual[g.row[j]] = kept ? g2.weight[j] * by_C2 : 0;
                    }
                }
                F = F_theta = 0, u *= s, u_decay = 1, C2 = 1;
                if (!(active = goes_on())) break;
            } else if (FURTHER) {
                C2 *= further.second_decay;
            }

            // Reads of old values: δ and φᵀω.
            const int phi = at.phi - from.phi, phi_end = end.phi - from.phi;
            const int next = at.next - from.next, next_end = end.next - from.next;
            const bool padded = at.event & NEXT_PADDED;
            real delta = true_online ? 0 : step.reward + F_theta * step.g_delta;
            real dual_value = true_online ? 0 : F * step.g_phi, gap = 0, D_phi = 0, D2_phi = 0, D_b = 0;
            Rows<4> of_theta, of_omega, of_dutch, of_dual;
            Rows<12> ahead;
            const bool wide = next + 12 <= next_end;
            if (wide) ahead.read(theta, next_row + next);
#pragma unroll 1
            for (int j = phi; j < phi_end; j += 4) {
                const bool padded = (at.event & PHI_PADDED) && j + 4 == phi_end;
                of_theta.read(theta, phi_row + j);
                if (with_omega) of_omega.read(omega, phi_row + j);
                if (true_online) of_dutch.read(dutch, phi_row + j);
                if (dutch_omega) of_dual.read(dutch_dual, phi_row + j);
                delta = of_theta.dot<-1>(delta, phi_value + j, padded);
                if (with_omega) dual_value = of_omega.dot<1>(dual_value, phi_value + j, padded);
                if (true_online) D_phi = of_dutch.dot<1>(D_phi, phi_value + j, padded);
                if (dutch_omega) D2_phi = of_dual.dot<1>(D2_phi, phi_value + j, padded);
            }
            if (true_online) gap = F_theta * D_phi - delta, delta = 0;
            int j = next;
            if (wide) delta = ahead.dot<1>(delta, next_c + j, padded && j + 12 == next_end), j += 12;
#pragma unroll 1
            for (; j + 12 <= next_end; j += 12) {
                ahead.read(theta, next_row + j);
                delta = ahead.dot<1>(delta, next_c + j, padded && j + 12 == next_end);
            }
#pragma unroll 1
            for (Rows<4> x; j < next_end; j += 4) {
                x.read(theta, next_row + j);
                delta = x.dot<1>(delta, next_c + j, padded && j + 4 == next_end);
            }
            for (j = next; true_online && j < next_end; j += 4) {
                Rows<4> x;
                x.read(dutch, next_row + j);
                D_b = x.dot<1>(D_b, next_c + j, false);
            }
            if (true_online) {
                const real value = delta + F_theta * D_b;
                delta = step.reward - gap + step.discount * value;
                gap -= predicted, predicted = value, dual_value += F * D2_phi;
            }

            // Scalars; a learner beyond the bound stops, with the weights it had before.
            C = step.C, dual_value *= s;
            u = u_decay * u + step.weight * dual_value;
            if (FURTHER && !true_online) v = further.second_decay * v + further.second_weight * dual_value;
            real a = alpha * step.a_scale, b = beta * step.b_scale, step_u = a * u;
            const real overlap = C * D_phi, overlap_dual = C2 * D2_phi;
            real size = fabs(delta) * (1 + td * a + dual * b) + fabs(dual_value) + fabs(step_u);
            if (FURTHER) size += fabs(v) + fabs(gap) + fabs(overlap) + fabs(overlap_dual);
            if (alive && (!(size <= bound) || (at.event & OVERFLOWED))) {
                alive = false, alpha = beta = a = b = 0;
                *diverged_at = group.done + begin + r + 1;
            }
            if (!alive) {
                delta = dual_value = u = v = step_u = 0;
                if (at.event & OVERFLOWED && !true_online) F = F_theta = 0;
                if (!(active = goes_on())) break;
            }
            const real v_theta = FURTHER ? a * hybrid * v : 0, v_omega = FURTHER ? b * hybrid * v : 0;
            if (shrink != 0) {
                const real sigma = 1 - beta * (shrink * step.b_scale);
                u *= sigma, v *= sigma, s *= sigma;
                if (fabs(s) < group.smallest || fabs(s) > 1 / group.smallest) {
                    fold_scale(omega, s, p);
                    F *= s, s = 1;
                    if (phi < phi_end) of_omega.read(omega, phi_row + phi);
                }
                inverse_s = 1 / s;
            }
            real by_theta = a * td * delta, by_omega = b * dual * delta, by_phi = v_theta;
            real entry = step.entry, entry_dual = step.entry, ee = step.ee, C_dual = C;
            if (true_online) {
                const real weight = b * (1 - overlap_dual);
                by_theta = td * delta + gap, by_omega = dual * further.second_weight * delta;
                by_phi = a * step.weight * gap, C_dual = C2;
                entry *= a * (1 - overlap), entry_dual = weight / C2;
                e_dutch = step.decay * further.second_decay * e_dutch + step.weight * overlap_dual;
                ee = e_dutch += weight * step.e_phi;
            }
            const real pull = b * gram * dual_value + v_omega;
            const real into_phi = saddle * step_u + a * gram_theta * dual_value - F_theta * entry - by_phi;
            const real out_of_phi = F * entry_dual + pull * inverse_s;
            F_theta += by_theta * C;
            F += by_omega * C_dual * inverse_s;
            u += by_omega * ee - pull * step.e_phi;
            if (hybrid != 0) {
                u += v_omega * further.e_b;
                v += by_omega * further.second_e - pull * further.second_phi + v_omega * further.second_b;
            }

            // Writes: the rows of φ, which were read before if they are only four; then of b and x.
#pragma unroll 1
            for (int j = phi; j < phi_end; j += 4) {
                if (phi_end - phi > 4) of_theta.read(theta, phi_row + j), of_omega.read(omega, phi_row + j);
                of_theta.add(theta, phi_value + j, into_phi);
                if (learns_omega) of_omega.add(omega, phi_value + j, -out_of_phi);
                if (true_online && phi_end - phi > 4) of_dutch.read(dutch, phi_row + j);
                if (dutch_omega && phi_end - phi > 4) of_dual.read(dutch_dual, phi_row + j);
                if (true_online) of_dutch.add(dutch, phi_value + j, entry);
                if (dutch_omega) of_dual.add(dutch_dual, phi_value + j, entry_dual);
            }
#pragma unroll 1
            for (int j = with_u ? next : next_end; j < next_end; j += 4) {
                Rows<4> x;
                x.read(theta, next_row + j);
                x.add(theta, next_v + j, -step_u);
                if (hybrid == 0) continue;
                x.add(theta, next_c + j, v_theta);
                x.read(omega, next_row + j);
                x.add(omega, next_c + j, v_omega * inverse_s);
            }
        }
    }
    state[2 * lanes] = F, state[3 * lanes] = F_theta, state[4 * lanes] = s, state[5 * lanes] = u;
    if (!FURTHER) return;
    state[6 * lanes] = C, state[7 * lanes] = C2, state[8 * lanes] = v;
    state[9 * lanes] = predicted, state[10 * lanes] = e_dutch;
}
