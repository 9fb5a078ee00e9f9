"""Writes and reads ArrayRecord files on request, and reports the time: one command per line, with tabs between its words.

    load  PATH                  loads the records to write, each a u32 little-endian length and bytes
    write PATH OPTIONS          writes the loaded records to a new file
    read  PATH OPTIONS each|all reads all records of a file, one by one or in one call
"""

import sys
import time

from array_record.python.array_record_module import ArrayRecordReader, ArrayRecordWriter

records = []


def load(path):
    records.clear()
    with open(path, "rb") as file:
        while prefix := file.read(4):
            records.append(file.read(int.from_bytes(prefix, "little")))
    return len(records)


def write(path, options):
    start = time.perf_counter()
    writer = ArrayRecordWriter(path, options)
    for record in records:
        writer.write(record)
    writer.close()
    return time.perf_counter() - start


def read(path, options, how):
    start = time.perf_counter()
    reader = ArrayRecordReader(path, options=options)
    if how == "all":
        total = sum(map(len, reader.read_all()))
    else:
        total = sum(len(reader.read()) for _ in range(reader.num_records()))
    reader.close()
    took = time.perf_counter() - start
    assert total == sum(map(len, records)), total
    return took


for line in sys.stdin:
    command, *words = line.rstrip("\n").split("\t")
    try:
        print("ok", {"load": load, "write": write, "read": read}[command](*words), flush=True)
    except Exception as error:  # The caller receives the error.
        print("failed", repr(error), flush=True)
