"""Protobuf's wire format, for messages that are walked and not parsed (protobuf.dev, "Encoding")."""


class WireError(ValueError):
    """The bytes are not protobuf."""


def varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """The number that begins at `at`, and the position after it.

    Raises:
        IndexError: the data ends within it.
        WireError: it is longer than 64 bits.
    """
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise WireError(f"the varint before byte {at} is longer than 64 bits")


def extent(data: bytes | memoryview, wire: int, at: int) -> tuple[int, int]:
    """First position and end of the content of a field of that wire type, whose tag ends at `at`.

    The end may lie after the data.

    Raises:
        IndexError: the data ends within the field's length.
        WireError: there is no such wire type, or it is one of the groups that proto3 has not.
    """
    match wire:
        case 0:
            return at, varint(data, at)[1]
        case 1:
            return at, at + 8
        case 2:
            length, first = varint(data, at)
            return first, first + length
        case 5:
            return at, at + 4
        case _:
            raise WireError(f"unknown wire type {wire} at byte {at}")


def varint_bytes(value: int) -> bytes:
    """A number of at least 0 as protobuf writes it."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
