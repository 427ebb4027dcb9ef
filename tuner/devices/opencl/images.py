"""Creates and checks images and samplers of pyopencl, and copies between images and buffers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyopencl as cl

from tuner.devices.opencl import arrays
from tuner.devices.opencl.enqueue import launch_error
from tuner.errors import ArgumentError, LaunchError, OutOfMemory

if TYPE_CHECKING:
    from tuner.devices.arguments import ArraySpec
    from tuner.space.kinds.image import Image, Texels
    from tuner.space.kinds.sampler import Sampler

_TYPES = {
    "1d": cl.mem_object_type.IMAGE1D,
    "2d": cl.mem_object_type.IMAGE2D,
    "3d": cl.mem_object_type.IMAGE3D,
    "2d_array": cl.mem_object_type.IMAGE2D_ARRAY,
}
_ORDERS = {1: cl.channel_order.R, 2: cl.channel_order.RG, 4: cl.channel_order.RGBA}
_ELEMENTS = {
    "uint8": cl.channel_type.UNSIGNED_INT8,
    "uint16": cl.channel_type.UNSIGNED_INT16,
    "uint32": cl.channel_type.UNSIGNED_INT32,
    "int8": cl.channel_type.SIGNED_INT8,
    "int16": cl.channel_type.SIGNED_INT16,
    "int32": cl.channel_type.SIGNED_INT32,
    "float16": cl.channel_type.HALF_FLOAT,
    "float32": cl.channel_type.FLOAT,
}
_FRACTIONS = {
    "uint8": cl.channel_type.UNORM_INT8,
    "uint16": cl.channel_type.UNORM_INT16,
    "int8": cl.channel_type.SNORM_INT8,
    "int16": cl.channel_type.SNORM_INT16,
}
_opencl: Any = cl._cl  # pyopencl.enqueue_copy takes no image of type 1d
_ORIGIN = (0, 0, 0)
_FILTERS = {"point": cl.filter_mode.NEAREST, "linear": cl.filter_mode.LINEAR}
_ADDRESSES = {
    "clamp": cl.addressing_mode.CLAMP_TO_EDGE,
    "border": cl.addressing_mode.CLAMP,
    "wrap": cl.addressing_mode.REPEAT,
    "mirror": cl.addressing_mode.MIRRORED_REPEAT,
    "none": cl.addressing_mode.NONE,
}


def sampler(context: cl.Context, wanted: Sampler) -> cl.Sampler:
    """A sampler with these settings. Raises LaunchError if the device has none such."""
    try:
        is_normalized = wanted.coordinates == "normalized"
        return cl.Sampler(context, is_normalized, _ADDRESSES[wanted.address], _FILTERS[wanted.filter])
    except cl.Error as error:
        raise LaunchError(f"creating a sampler: {error}") from None


def created(context: cl.Context, texels: Texels) -> cl.Image:
    """A new image that a kernel may read and write. Raises LaunchError if the device does not support it, OutOfMemory
    if it does not fit."""
    what = f"an image of {' x '.join(map(str, texels.extents))} texels ({_format_text(_format(texels))})"
    form, flags = _format(texels), cl.mem_flags.READ_WRITE
    supported = cl.get_supported_image_formats(context, flags, _TYPES[texels.type])
    if form not in supported:
        orders = [n for n, order in _ORDERS.items() if cl.ImageFormat(order, form.channel_data_type) in supported]
        able = f"it has {' and '.join(map(str, orders))} channels" if orders else "use another dtype"
        raise LaunchError(f"creating {what}: the device lacks this format of `type: {texels.type}`; {able}")
    try:
        return cl.create_image(context, flags, form, shape=texels.extents, is_array=texels.type == "2d_array")
    except cl.Error as error:
        if error.code in (cl.status_code.MEM_OBJECT_ALLOCATION_FAILURE, cl.status_code.OUT_OF_HOST_MEMORY):
            raise OutOfMemory(f"{what} does not fit ({error}); try a smaller size") from None
        raise LaunchError(f"creating {what}: {error}", "too many resources") from None


def copy_in(queue: cl.CommandQueue, image: cl.Image, buffer: cl.Buffer, extents: tuple[int, ...]) -> None:
    """Enqueue a copy of the whole `buffer` to an image with these extents."""
    whole, start = arrays.parent(buffer)  # PoCL 3.1 copies images safely from and to whole buffers alone
    _copied(lambda: _opencl._enqueue_copy_buffer_to_image(queue, whole, image, start, _ORIGIN, _region(extents)))


def copy_out(queue: cl.CommandQueue, buffer: cl.Buffer, image: cl.Image, extents: tuple[int, ...]) -> None:
    """Enqueue a copy of an image with these extents to the whole `buffer`."""
    whole, start = arrays.parent(buffer)
    _copied(lambda: _opencl._enqueue_copy_image_to_buffer(queue, image, whole, _ORIGIN, _region(extents), start))


def image_of(spec: ArraySpec, kind: Image, array: Any, context: cl.Context) -> cl.Image:
    """The caller's image. Raises ArgumentError if it does not meet `spec`."""
    name, wanted = spec.argument.name, kind.texels(spec.shape, spec.element)
    if not isinstance(array, cl.Image):
        raise ArgumentError(
            f"{name}: of type {type(array).__name__}; pass a pyopencl.Image of {_text(wanted)}, such as "
            f"pyopencl.image_from_array(kernel.device.context, {name}{_options(spec, wanted)}) makes of a NumPy array"
        )
    if array.context != context:
        raise ArgumentError(f"{name}: is in another OpenCL context; create it in `kernel.device.context`")
    form: Any = array.get_image_info(cl.image_info.FORMAT)
    extents = _extents(array)
    if array.type != _TYPES[wanted.type] or extents != wanted.extents or form != _format(wanted):
        is_type = next((name for name, type_ in _TYPES.items() if type_ == array.type), "another")
        found = f"type {is_type}, {' x '.join(map(str, extents))} texels, {_format_text(form)}"
        raise ArgumentError(f"{name}: is an image of {found}; required: {_text(wanted)}")
    is_output = spec.argument.role != "in"
    if array.flags & (cl.mem_flags.READ_ONLY if is_output else cl.mem_flags.WRITE_ONLY):
        access = "read" if is_output else "written"
        raise ArgumentError(f"{name}: this image may only be {access}; pass one made with READ_WRITE")
    return array


def _format(texels: Texels) -> cl.ImageFormat:
    types = _FRACTIONS if texels.is_normalized else _ELEMENTS
    return cl.ImageFormat(_ORDERS[texels.channels], types[texels.element])


def _copied(enqueue: Callable[[], object]) -> None:
    try:
        enqueue()
    except cl.Error as error:
        raise launch_error("copying an image", error) from None


def _region(extents: tuple[int, ...]) -> tuple[int, ...]:
    return (*extents, 1, 1)[:3]


def _extents(image: cl.Image) -> tuple[int, ...]:
    """The extents of an image, width first; the last one of an array of images is their number."""
    info = cl.image_info
    last = info.ARRAY_SIZE if image.type == cl.mem_object_type.IMAGE2D_ARRAY else info.DEPTH
    found: list[Any] = [image.get_image_info(each) for each in (info.WIDTH, info.HEIGHT, last)]
    return tuple(int(extent) for extent in found if extent)


def _text(texels: Texels) -> str:
    return f"type {texels.type}, {' x '.join(map(str, texels.extents))} texels, {_format_text(_format(texels))}"


def _format_text(form: cl.ImageFormat) -> str:
    orders: Any = cl.channel_order
    types: Any = cl.channel_type
    return f"{orders.to_string(form.channel_order, '%d')} of {types.to_string(form.channel_data_type, '%d')}"


def _options(spec: ArraySpec, texels: Texels) -> str:
    """The options of image_from_array, after the array."""
    channels = f", num_channels={texels.channels}" if len(spec.shape) > len(texels.extents) else ""
    mode = "" if spec.argument.role == "in" else ', mode="w"'
    return f"{channels}{mode}{', norm_int=True' if texels.is_normalized else ''}"
