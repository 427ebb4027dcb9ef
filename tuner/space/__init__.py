"""What space and operation files say: parameters, restrictions, arguments and source. Nothing here needs a device."""
