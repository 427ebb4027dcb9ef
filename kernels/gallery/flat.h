// Long vectors, a tile per block or several: what kernels on vectors do alike.
//
// A tile is `threads` x `items` packs of `vector` elements. Neighbouring threads take neighbouring packs; a thread's
// next pack lies `threads` packs further. A thread loads all its packs before it stores one: that many bytes are under
// way at once. With grid_blocks = 0 there is a block for each tile; else that many blocks take tiles in turns.
#ifndef FLAT_H
#define FLAT_H

#ifndef threads
#define threads 256
#endif
#ifndef items
#define items 1 // packs per thread and tile
#endif
#ifndef vector
#define vector 1 // elements per load and store
#endif

#include "launch_bounds.h"
#include "pack.h"
#include "stream.h"

#define TILE (threads * items * vector)

// From the beginning of a tile to a thread's pack i.
INLINE int pack_at(int i) { return (i * threads + (int)threadIdx.x) * vector; }

#endif
