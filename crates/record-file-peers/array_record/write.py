"""Writes an ArrayRecord file of the records on standard input (u32 little-endian length and bytes each): write.py PATH OPTIONS"""

import sys

from array_record.python.array_record_module import ArrayRecordWriter

writer = ArrayRecordWriter(sys.argv[1], sys.argv[2])
while prefix := sys.stdin.buffer.read(4):
    writer.write(sys.stdin.buffer.read(int.from_bytes(prefix, "little")))
writer.close()
