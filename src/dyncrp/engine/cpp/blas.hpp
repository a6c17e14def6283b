// The matrix product of SciPy's BLAS, so that there is nothing to link and threadpoolctl controls its threads.
#pragma once

#include "numbers.hpp"

namespace dyncrp {

/// sgemm with the Fortran interface: arguments by pointer, 32-bit integers, matrices by columns.
using Sgemm = void (*)(char*, char*, int*, int*, int*, float*, float*, int*, float*, int*, float*, float*, int*);

inline Sgemm sgemm = nullptr;  // set when the module is loaded

/// out (n, m) = left (n, width) · right (m, width)ᵀ, all by rows; rows of left and right begin `stride` apart, those of
/// out `out_stride`.
inline void multiply(const float* left, Index n, const float* right, Index m, Index width, Index stride, float* out,
                     Index out_stride) {
    char transposed = 'T', plain = 'N';
    int rows = static_cast<int>(m), columns = static_cast<int>(n), inner = static_cast<int>(width);
    int step = static_cast<int>(stride), out_step = static_cast<int>(out_stride);
    float one = 1.0F, zero = 0.0F;
    // Read by columns, out is its transpose: outᵀ = right · leftᵀ.
    sgemm(&transposed, &plain, &rows, &columns, &inner, &one, const_cast<float*>(right), &step,
          const_cast<float*>(left), &step, &zero, out, &out_step);
}

}  // namespace dyncrp
