"""Reads and writes .npy files with nothing but the standard library, for the scripts beside it and for tests.

Arrays are (shape, values): a tuple and an array.array in row-major order. The machine must be little-endian, as all
that Epifuse runs on are.
"""

import array
import ast
import math
import struct

TYPECODES = {"<f4": "f", "<f8": "d", "<u2": "H", "|u1": "B", "<i4": "i", "<i8": "q"}


def write(path, dtype, shape, values):
    """Values may be anything that array.array takes, bytes too."""
    data = array.array(TYPECODES[dtype], values)
    if len(data) != math.prod(shape):
        raise ValueError(f"{path}: {len(data)} values for the shape {shape}")
    header = repr({"descr": dtype, "fortran_order": False, "shape": tuple(shape)}).encode()
    header += b" " * (-(10 + len(header) + 1) % 64) + b"\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)
        data.tofile(file)


def read(path):
    with open(path, "rb") as file:
        data = file.read()
    if data[:6] != b"\x93NUMPY":
        raise ValueError(f"{path} is no .npy file")
    long = data[6] > 1
    size = struct.unpack_from("<I" if long else "<H", data, 8)[0]
    begin = (12 if long else 10) + size
    header = ast.literal_eval(data[begin - size : begin].decode())
    if header["fortran_order"]:
        raise ValueError(f"{path} is in Fortran order")
    values = array.array(TYPECODES[header["descr"]])
    values.frombytes(data[begin:])
    return header["shape"], values
