"""Calls of the CUDA driver by ctypes.

This room and `launches` make every call that depends on a context. PyCUDA is unsuitable, because it keeps its own stack
of contexts per thread: it ignores contexts that CuPy or torch make current, frees memory only in the thread that
created the context, aborts the process if a thread ends with a context on its stack, and launches only into its own
streams. cuda-bindings is suitable, but creates Python objects for the arguments of each launch, which is slow.
"""
