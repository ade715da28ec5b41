"""Block scales in the layout blocked_128x4, to plain rows and back; and where each group of a grouped tensor begins.

    blocked = to_blocked_128x4(scales, rows=130, columns=5)      # 130 * 5 bytes in, 2048 out
    scales = from_blocked_128x4(blocked, rows=130, columns=5)

A scale is one byte (e8m0 or e4m3). `rows` counts what lies across the blocks, `columns` the blocks along the contracted
dimension. What goes in is anything with the buffer protocol (bytes, a contiguous numpy array, torch's tensor.numpy()),
what comes out is a bytearray: numpy.frombuffer(result, numpy.uint8) makes an array of it without a copy. docs/formats.md has the
formula and a picture.
"""

TILE_ROWS, TILE_COLUMNS, TILE_BYTES = 128, 4, 512


def offset_128x4(row, column, columns):
    """The byte of a scale in a matrix of `columns` blocks."""
    tile = row // TILE_ROWS * _divide_up(columns, TILE_COLUMNS) + column // TILE_COLUMNS
    return tile * TILE_BYTES + row % 32 * 16 + row % TILE_ROWS // 32 * 4 + column % TILE_COLUMNS


def place_128x4(offset, columns):
    """(row, column) of the scale at a byte: the inverse of offset_128x4. Padding has places too, outside the matrix."""
    tile, inside = divmod(offset, TILE_BYTES)
    tile_row, tile_column = divmod(tile, _divide_up(columns, TILE_COLUMNS))
    row = tile_row * TILE_ROWS + inside % 16 // 4 * 32 + inside // 16
    return row, tile_column * TILE_COLUMNS + inside % 4


def size_128x4(rows, columns):
    """Bytes of a matrix: whole tiles."""
    return _divide_up(rows, TILE_ROWS) * _divide_up(columns, TILE_COLUMNS) * TILE_BYTES


def to_blocked_128x4(scales, rows, columns):
    """The blocked form of rows * columns scales, row after row. Bytes of padding are 0. ValueError: another size."""
    source = _bytes_of(scales, rows * columns)
    blocked = bytearray(size_128x4(rows, columns))
    for row in range(rows):
        for column in range(0, columns, TILE_COLUMNS):  # up to four scales of a row lie together
            to = offset_128x4(row, column, columns)
            count = min(TILE_COLUMNS, columns - column)
            blocked[to : to + count] = source[row * columns + column : row * columns + column + count]
    return blocked


def from_blocked_128x4(blocked, rows, columns):
    """The scales of a blocked matrix, row after row, without its padding. ValueError: another size."""
    source = _bytes_of(blocked, size_128x4(rows, columns))
    scales = bytearray(rows * columns)
    for row in range(rows):
        for column in range(0, columns, TILE_COLUMNS):
            at = offset_128x4(row, column, columns)
            count = min(TILE_COLUMNS, columns - column)
            scales[row * columns + column : row * columns + column + count] = source[at : at + count]
    return scales


def groups_along_rows(counts, columns, align=1):
    """The byte at which each group's scales begin where groups are cut out of the rows ([M, N] with blocks along N, or
    [P, N] with groups at multiples of `align`), each on a tile row of its own; then where the last one ends. Inside, a
    group is a matrix of roundup(counts[e], align) rows."""
    return _running([size_128x4(_divide_up(count, align) * align, columns) for count in counts])


def groups_along_columns(counts, rows, block, align=TILE_ROWS):
    """The same where groups are cut out of what the blocks run along ([N, P] with blocks of `block` tokens): each group
    is a matrix of `rows` rows and roundup(counts[e], align) / block columns."""
    return _running([size_128x4(rows, _divide_up(_divide_up(count, align) * align, block)) for count in counts])


def _running(sizes):
    starts = [0]
    for size in sizes:
        starts.append(starts[-1] + size)
    return starts


def _divide_up(a, b):
    return -(-a // b)


def _bytes_of(values, size):
    source = memoryview(values).cast("B")
    if len(source) != size:
        raise ValueError(f"{len(source)} bytes are given, and there are {size} of such a matrix")
    return source
