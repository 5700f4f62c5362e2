"""The work of the CUDA engine, through CuPy: arrays on the device in, arrays on the device out.

Imported by `momentopic.engine.cuda` alone, and only where a device is asked for.
"""
