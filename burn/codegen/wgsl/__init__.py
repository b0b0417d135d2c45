"""WGSL, the language of WebGPU: kernels for GPUs through Vulkan, Metal, Direct3D 12, and in browsers.

A shader has no pointers. All device memory is one storage buffer of 32-bit words, the heap, and a kernel's buffers are
offsets in it. So every kernel has the same bind group layout: binding 0 is the heap, binding 1 a uniform buffer with the
launch's words. A launch is data: a kernel, a number of workgroups, and words. The native runtime
(`burn/runtime/native/driver_wgpu_work.c`) submits it; a page in a browser can do the same.

Entry points: `backend.for_options`, and `kernels.KernelPrinter` for one kernel.
"""
