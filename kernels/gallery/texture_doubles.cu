// The reference of texture.cu: out = the image at another size. Places and sums are computed in double precision, one
// output per thread; pixels come from the texture one by one.

struct Between {
    int before, behind;
    double share;
};

__device__ Between between(int i, int outputs, int pixels) {
    const double place = fmin(fmax((i + 0.5) * pixels / outputs - 0.5, 0.0), pixels - 1.0);
    const int before = (int)place;
    return {before, min(before + 1, pixels - 1), place - before};
}

extern "C" __global__ void resample_in_doubles(float *out, cudaTextureObject_t image, int oh, int ow, int h, int w) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= ow || y >= oh) {
        return;
    }
    const Between column = between(x, ow, w), row = between(y, oh, h);
    const auto pixel = [image](int x, int y) { return (double)tex2D<float>(image, x + 0.5f, y + 0.5f); };
    const double above = (1.0 - column.share) * pixel(column.before, row.before) +
                         column.share * pixel(column.behind, row.before);
    const double below = (1.0 - column.share) * pixel(column.before, row.behind) +
                         column.share * pixel(column.behind, row.behind);
    out[(size_t)y * ow + x] = (float)((1.0 - row.share) * above + row.share * below);
}
