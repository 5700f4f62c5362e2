// Device kernels of momentopic: sparse products, and Gibbs sweeps with one warp a document.
//
// Nothing here depends on the order in which threads happen to run: every floating-point sum has one owner that adds in
// the order of the entries, and what many threads add to is whole numbers.

typedef unsigned long long u64;
typedef long long i64;

template <typename T, int N>
struct __align__(sizeof(T) * N) Pack {
    T at[N];
};

// Y = w (X V - center), row by row; N columns to a thread, blockDim.x threads to a row of `width` columns.
// Without weights (null) w is 1, without center it is 0.
template <typename T, int N, typename C>
__global__ void project(const i64* indptr, const int* indices, const C* counts, const T* weights, const T* V,
                        const T* center, T* Y, i64 n_rows, int width) {
    i64 row = (i64)blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= n_rows) return;
    const Pack<T, N>* columns = reinterpret_cast<const Pack<T, N>*>(V) + threadIdx.x;
    size_t stride = width / N;
    T sum[N];
#pragma unroll
    for (int j = 0; j < N; ++j) sum[j] = 0;
    i64 end = indptr[row + 1];
#pragma unroll 4
    for (i64 e = indptr[row]; e < end; ++e) {
        T x = (T)counts[e];
        Pack<T, N> p = columns[(size_t)indices[e] * stride];
#pragma unroll
        for (int j = 0; j < N; ++j) sum[j] += x * p.at[j];
    }
    T w = weights ? weights[row] : (T)1;
    Pack<T, N> out;
#pragma unroll
    for (int j = 0; j < N; ++j) out.at[j] = w * (sum[j] - (center ? center[threadIdx.x * N + j] : (T)0));
    reinterpret_cast<Pack<T, N>*>(Y)[(size_t)row * stride + threadIdx.x] = out;
}

// out += the sum of the parts of each word, in double; a thread to an entry of `out`.
template <typename T>
__global__ void combine(const int* first_part, const T* parts, double* out, i64 n_words, int width) {
    i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n_words * width) return;
    i64 word = i / width, column = i % width;
    double sum = 0;
    int end = first_part[word + 1];
#pragma unroll 4
    for (int part = first_part[word]; part < end; ++part) sum += (double)parts[(size_t)part * width + column];
    out[i] += sum;
}

// P_nj = y_na y_nb for the pair (a, b) number j; with weights, times w_n.
template <typename T>
__global__ void pairs(const T* Y, const T* weights, const int* a, const int* b, T* P, int n_rows, int n_pairs, int width) {
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= n_pairs) return;
    int first = a[j], second = b[j];
    for (int n = blockIdx.y; n < n_rows; n += gridDim.y) {
        const T* y = Y + (size_t)n * width;
        T p = y[first] * y[second];
        P[(size_t)n * n_pairs + j] = weights ? p * weights[n] : p;
    }
}

// The row of each entry.
__global__ void rows_of_entries(const i64* indptr, int* out, i64 n_rows) {
    i64 row = (i64)blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= n_rows) return;
    for (i64 e = indptr[row] + threadIdx.x; e < indptr[row + 1]; e += blockDim.x) out[e] = (int)row;
}

// ---- Gibbs sweeps: a warp to a document, topics k = lane + 32 j to a lane ----

const unsigned ALL = 0xffffffffu;
const u64 GOLDEN = 0x9e3779b97f4a7c15ull;

__device__ inline u64 mix(u64 x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

// Return a number below 1 that 24 bits stand for.
__device__ inline float unit(u64 bits) { return (float)bits * (1.0f / 16777216.0f); }

__device__ inline float warp_sum(float x) {
#pragma unroll
    for (int step = 16; step; step /= 2) x += __shfl_xor_sync(ALL, x, step);
    return x;
}

// Return a topic with probability proportional to p, for a number u below 1, and the sum of p; the same in all lanes.
template <int J>
__device__ inline int choose(const float (&p)[J], float u, int lane, float& total) {
    float own = 0;
#pragma unroll
    for (int j = 0; j < J; ++j) own += p[j];
    float upto = own;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        float before = __shfl_up_sync(ALL, upto, step);
        if (lane >= step) upto += before;
    }
    total = __shfl_sync(ALL, upto, 31);
    u *= total;
    unsigned beyond = __ballot_sync(ALL, upto > u && own > 0);
    unsigned possible = __ballot_sync(ALL, own > 0);
    // rounding may let u pass the sum of all: then the last topic that is possible
    int where = beyond ? __ffs(beyond) - 1 : possible ? 31 - __clz(possible) : 0;
    float rest = u - (upto - own), sum = 0;
    int pick = -1, last = 0;
#pragma unroll
    for (int j = 0; j < J; ++j) {
        sum += p[j];
        if (p[j] > 0) {
            last = j;
            if (pick < 0 && sum > rest) pick = j;
        }
    }
    int topic = lane + 32 * (pick < 0 ? last : pick);
    return __shfl_sync(ALL, topic, where);
}

// Infer documents under fixed topics by some steps of expectation maximisation, and draw the topics of their tokens.
template <int J>
__global__ void start(const i64* indptr, const int* indices, const float* counts, const i64* first_token,
                      const float* phi, const float* alpha, int n_passes, u64* random, unsigned short* z, float* N,
                      int* word_counts, i64 n_docs) {
    i64 d = ((i64)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (d >= n_docs) return;
    int lane = threadIdx.x % 32;
    float n[J], prior[J];
#pragma unroll
    for (int j = 0; j < J; ++j) n[j] = 0, prior[j] = alpha[lane + 32 * j];
    i64 begin = indptr[d], end = indptr[d + 1];
    for (int pass = 0; pass < n_passes; ++pass) {
        float next[J];
#pragma unroll
        for (int j = 0; j < J; ++j) next[j] = 0;
        for (i64 e = begin; e < end; ++e) {
            const float* f = phi + (size_t)indices[e] * (32 * J) + lane;
            float p[J], own = 0;
#pragma unroll
            for (int j = 0; j < J; ++j) p[j] = f[32 * j] * (n[j] + prior[j]), own += p[j];
            float total = warp_sum(own);
            float share = total > 0 ? counts[e] / total : 0;
#pragma unroll
            for (int j = 0; j < J; ++j) next[j] += share * p[j];
        }
#pragma unroll
        for (int j = 0; j < J; ++j) n[j] = next[j];
    }
    float drawn[J];
#pragma unroll
    for (int j = 0; j < J; ++j) drawn[j] = 0;
    u64 stream = random[d];
    i64 t = first_token[d];
    for (i64 e = begin; e < end; ++e) {
        size_t row = (size_t)indices[e] * (32 * J);
        float p[J];
#pragma unroll
        for (int j = 0; j < J; ++j) p[j] = phi[row + lane + 32 * j] * (n[j] + prior[j]);
        int x = (int)counts[e];
        for (int i = 0; i < x; ++i, ++t) {
            stream += GOLDEN;
            float total;
            int topic = choose<J>(p, unit(mix(stream) >> 40), lane, total);
#pragma unroll
            for (int j = 0; j < J; ++j)
                if (topic == lane + 32 * j) drawn[j] += 1;
            if (lane == 0) {
                z[t] = (unsigned short)topic;
                atomicAdd(word_counts + row + topic, 1);
            }
        }
    }
#pragma unroll
    for (int j = 0; j < J; ++j) N[(size_t)d * (32 * J) + lane + 32 * j] = drawn[j];
    if (lane == 0) random[d] = stream;
}

// Set the cursors of each document to its first entry whose word is the first of its block's part or a later one.
__global__ void seek(const i64* indptr, const int* indices, const float* counts, const i64* first_token,
                     const int* block_of, const int* boundaries, i64* entry, i64* token, i64 n_docs) {
    i64 d = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (d >= n_docs) return;
    int first = boundaries[block_of[d]];
    i64 e = indptr[d], t = first_token[d];
    while (e < indptr[d + 1] && indices[e] < first) t += (i64)counts[e++];
    entry[d] = e;
    token[d] = t;
}

// A collapsed Gibbs sweep over the words that each document's block holds in this turn. F are the word counts as they
// were before the turn; what changes goes into `change`. A document sees its own changes at once.
template <int J>
__global__ void sampled(const i64* indptr, const int* indices, const float* counts, const i64* first_token,
                        const int* block_of, const int* boundaries, int n_parts, int turn, i64* entry, i64* token,
                        const float* F, float eta, const float* scale, const float* alpha, unsigned short* z, float* N,
                        u64* random, int* change, i64 n_docs) {
    i64 d = ((i64)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (d >= n_docs) return;
    int lane = threadIdx.x % 32;
    int part = (block_of[d] + turn) % n_parts;
    int first = boundaries[part], beyond = boundaries[part + 1];
    i64 e = first ? entry[d] : indptr[d], t = first ? token[d] : first_token[d], last = indptr[d + 1];
    int word = e < last ? indices[e] : beyond;
    if (word >= beyond) {
        if (lane == 0) entry[d] = e, token[d] = t;
        return;
    }
    float a[J], step[J], n[J], next[J];
#pragma unroll
    for (int j = 0; j < J; ++j) {
        int k = lane + 32 * j;
        n[j] = N[(size_t)d * (32 * J) + k];
        step[j] = scale[k];
        a[j] = (n[j] + alpha[k]) * step[j];
        next[j] = F[(size_t)word * (32 * J) + k];
    }
    u64 stream = random[d];
    while (word < beyond) {
        float f[J];
#pragma unroll
        for (int j = 0; j < J; ++j) f[j] = next[j] + eta;
        size_t row = (size_t)word * (32 * J);
        int x = (int)counts[e++];
        // the counts of the next word are on their way while the tokens of this one are drawn
        word = e < last ? indices[e] : beyond;
        if (word < beyond) {
#pragma unroll
            for (int j = 0; j < J; ++j) next[j] = F[(size_t)word * (32 * J) + lane + 32 * j];
        }
        for (int i = 0; i < x; ++i, ++t) {
            int old = z[t];
            float p[J], own = 0;
#pragma unroll
            for (int j = 0; j < J; ++j) {
                bool here = old == lane + 32 * j;
                // the token itself is left out of the counts of its topic
                if (here) own = fmaxf((a[j] - step[j]) * (f[j] - 1), 0.0f);
                p[j] = here ? 0.0f : fmaxf(a[j] * f[j], 0.0f);
            }
            own = __shfl_sync(ALL, own, old % 32);
            stream += GOLDEN;
            u64 bits = mix(stream);
            float others;
            int topic = choose<J>(p, unit(bits >> 40), lane, others);
            float there = 0;
#pragma unroll
            for (int j = 0; j < J; ++j) there = topic == lane + 32 * j ? p[j] : there;
            there = __shfl_sync(ALL, there, topic % 32);
            // as in kernels/collapsed.py: another topic is taken with probability (1 - p_old) / (1 - p_new)
            if (others > 0 && unit(bits & 0xffffff) * (others + own - there) < others) {
#pragma unroll
                for (int j = 0; j < J; ++j) {
                    if (old == lane + 32 * j) a[j] -= step[j], f[j] -= 1, n[j] -= 1;
                    if (topic == lane + 32 * j) a[j] += step[j], f[j] += 1, n[j] += 1;
                }
                if (lane == 0) {
                    z[t] = (unsigned short)topic;
                    atomicAdd(change + row + old, -1);
                    atomicAdd(change + row + topic, 1);
                }
                __syncwarp();
            }
        }
    }
#pragma unroll
    for (int j = 0; j < J; ++j) N[(size_t)d * (32 * J) + lane + 32 * j] = n[j];
    if (lane == 0) entry[d] = e, token[d] = t, random[d] = stream;
}

// Count how often each whole number above 0 is in each column of N; the last bin takes all larger ones.
__global__ void histogram(const float* N, u64* out, i64 n_docs, int width, int n_topics, int n_bins) {
    i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n_docs * width) return;
    int k = (int)(i % width), n = (int)rintf(N[i]);
    if (k < n_topics && n > 0) atomicAdd(out + (size_t)k * n_bins + min(n, n_bins - 1), 1ull);
}
