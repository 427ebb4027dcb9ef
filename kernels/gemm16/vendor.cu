// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, all of 16 bits, by an algorithm of cuBLASLt.
//
// There is no code here: cuBLASLt has the kernels, and `compiler: cublaslt` launches them. For each product it offers
// algorithms (a routine, its tile, how it splits the depth), those first that it expects to be fastest:
// - algorithm: the number of one of them, in this order. cuBLAS runs number 0. The order is of the product, the device
//   and the version of the library, and so is a number: a record serves only where all three are the same.
// - workspace: memory for the parts of sums, as much as cuBLAS has on an H100.
// The best found is often another than number 0, because the library expects times, and does not measure them.
// Ideas: cuBLASLt's own samples time what its heuristics offer (LtSgemmSimpleAutoTuning).
#ifndef real
#define real __half
#endif
#ifndef algorithm
#define algorithm 0
#endif
#ifndef transposed_b
#define transposed_b 0 // 1: B is N x K
#endif
#define KERNEL extern "C" __global__
#define GLOBAL

KERNEL void vendor(GLOBAL real *C, GLOBAL const real *A, GLOBAL const real *B, GLOBAL unsigned char *workspace, int M,
                   int N, int K, int batch, float alpha, float beta) {
    enum { number = algorithm, is_b_transposed = transposed_b }; // what is read of this text, besides the types
}
