"""Compares tables, as read by pyarrow, Polars and DuckDB, with the values that protobuf reads. See run.sh."""

import argparse
import csv
import pathlib
import random
import subprocess
import sys

import duckdb
import judged
import polars
import pyarrow
import pyarrow.compute
import pyarrow.feather
import pyarrow.parquet
import random_types
import recipes
import sequences

passed, failed = 0, 0


def check(what, ok, detail=""):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    if not ok:
        print(f"FAILED: {what} {detail}"[:2000], flush=True)


def plain(array):
    """Returns the values in an Arrow array as Python values, with times in nanoseconds."""
    if isinstance(array, pyarrow.ChunkedArray):
        return [value for chunk in array.chunks for value in plain(chunk)]
    kind = array.type
    if isinstance(array, pyarrow.ExtensionArray):
        return plain(array.storage)
    if pyarrow.types.is_timestamp(kind) or pyarrow.types.is_duration(kind):
        each = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[kind.unit]
        counts = array.cast(pyarrow.int64()).to_pylist()
        return [None if count is None else count * each for count in counts]
    if pyarrow.types.is_dictionary(kind):
        return plain(array.dictionary_decode())
    valid = array.is_valid().to_pylist()
    if pyarrow.types.is_map(kind):
        offsets = array.offsets.to_pylist()
        keys, items = plain(array.keys), plain(array.items)
        rows = zip(offsets, offsets[1:])
        first = offsets[0] if len(keys) < offsets[-1] else 0
        found = [dict(zip(keys[a - first : b - first], items[a - first : b - first])) for a, b in rows]
    elif pyarrow.types.is_list(kind) or pyarrow.types.is_large_list(kind):
        lengths = pyarrow.compute.list_value_length(array).fill_null(0).to_pylist()
        values, at, found = plain(array.flatten()), 0, []
        for length in lengths:
            found.append(values[at : at + length])
            at += length
    elif pyarrow.types.is_struct(kind):
        fields = [(kind.field(at).name, plain(array.field(at))) for at in range(kind.num_fields)]
        found = [{name: values[at] for name, values in fields} for at in range(len(array))]
    else:
        found = array.to_pylist()
    return [value if there else None for value, there in zip(found, valid)]


def alike(found, expected, coarse=False):
    """Returns true if two values are equal. A map may be a list of its entries; with `coarse`, times are compared in microseconds."""
    if isinstance(expected, dict) and isinstance(found, list):
        found = {entry["key"]: entry["value"] for entry in found}
    if isinstance(expected, dict):
        return isinstance(found, dict) and found.keys() == expected.keys() and all(
            alike(found[key], value, coarse) for key, value in expected.items()
        )
    if isinstance(expected, list):
        return isinstance(found, list) and len(found) == len(expected) and all(
            alike(one, other, coarse) for one, other in zip(found, expected)
        )
    if coarse and isinstance(expected, int) and isinstance(found, int) and abs(expected) > 10**9:
        return found == expected or found == expected // 1000 * 1000
    return type(found) is type(expected) and found == expected


def compare(what, table, expected, coarse=False):
    """Compares a pyarrow table with the rows that protobuf read."""
    names = list(expected[0]) if expected else table.column_names
    if table.column_names != names or table.num_rows != len(expected):
        check(what, False, f"{table.column_names} x {table.num_rows}, not {names} x {len(expected)}")
        return
    for name in names:
        found = plain(table.column(name))
        wrong = [
            (at, one, row[name]) for at, (one, row) in enumerate(zip(found, expected)) if not alike(one, row[name], coarse)
        ]
        if wrong:
            check(f"{what}: column {name}", False, f"row {wrong[0]} of {len(wrong)}")
            return
    check(what, True)


def readers(path):
    """Yields, for each program, its name, the pyarrow table it reads from a Parquet file, and whether it truncates times."""
    yield "pyarrow", pyarrow.parquet.read_table(path), False
    yield "polars", polars.read_parquet(path).to_arrow(), False
    with duckdb.connect() as connection:
        found = connection.sql(f"select * from '{path}'").to_arrow_table()
    yield "duckdb", found, True


class Tables:
    def __init__(self, args, log, *schema):
        self.command = [args.protosplit, "cat", str(log)]
        self.schema = list(schema)
        self.out = args.work / "table"

    def run(self, query, *options):
        command = [*self.command, query, *self.schema, *options]
        return subprocess.run(command, capture_output=True)

    def write(self, query, kind, *options):
        path = self.out.with_suffix(f".{kind}")
        done = self.run(query, "--format", kind, *options, "-o", str(path), "--force")
        if done.returncode:
            raise RuntimeError(f"{query} {options}: {done.stderr.decode()}")
        return path

    def judge(self, what, query, expected, *options, only=None):
        try:
            path = self.write(query, "parquet", *options)
            for name, table, coarse in readers(path):
                if only in (None, name):
                    compare(f"{what}, {name}", table, expected, coarse)
        except Exception as error:
            check(what, False, f"{type(error).__name__}: {error}")


def events(args):
    """Creates a log with every kind of field."""
    source = pathlib.Path(__file__).parent / "events.proto"
    subprocess.run(
        [sys.executable, "-m", "grpc_tools.protoc", f"-I{source.parent}", f"--python_out={args.work}", source], check=True
    )
    sys.path.insert(0, str(args.work))
    import events_pb2

    rng = random.Random(37)
    log = events_pb2.Log(title="a log", words=["one", "", "zwei", "三"])
    for plane_at in range(3):
        plane = log.planes.add(id=plane_at - 1, name=f"plane {plane_at}")
        for _ in range(rng.randint(1, 4)):
            line = plane.lines.add(rank=rng.randint(-9, 9))
            if rng.random() < 0.5:
                line.label = "labelled"
            for _ in range(rng.randint(0, 60)):
                random_types.fill(line.events.add(), rng)
    for name in ("b", "a", ""):
        random_types.fill(log.named[name], rng)
    path = args.work / "log.pb"
    path.write_bytes(log.SerializeToString())
    schema = ("--message", "events.Log", "--proto", str(source), "-I", str(source.parent))
    return log, path, schema


def rows_of(log):
    for plane_at, plane in enumerate(log.planes):
        for line_at, line in enumerate(plane.lines):
            for event_at, event in enumerate(line.events):
                yield (plane_at, plane), (line_at, line), (event_at, event)


EVENTS = "planes[*].lines[*].events[*]"


def every_kind(args, log, tables):
    rows = [event for *_, (_, event) in rows_of(log)]
    descriptor = rows[0].DESCRIPTOR
    singles = judged.single_names(descriptor)
    of = lambda names: [{name: judged.at(row, name) for name in names} for row in rows]
    tables.judge("the fields with single values", EVENTS, of(singles))
    every = [field.name for field in descriptor.fields]
    tables.judge("all fields", EVENTS, of(every), "--columns", ",".join(every))
    inside = ["name", "args.key", "args.number", "many.key", "many.number", "many.points", "choice_args.points", "any.type_url"]
    tables.judge("fields in fields", EVENTS, of(inside), "--columns", ",".join(inside))
    times = ["at.seconds", "took.nanos", "wrapped_number.value", "times.nanos"]
    tables.judge("the fields of times", EVENTS, of(times), "--columns", ",".join(times))

    expected = []
    for (plane_at, plane), (line_at, line), (event_at, event) in rows_of(log):
        around = {"planes_index": plane_at, "planes.id": plane.id, "planes.name": plane.name}
        around |= {"planes.lines_index": line_at, "planes.lines.rank": line.rank}
        around["planes.lines.label"] = line.label if line.HasField("label") else None
        expected.append(around | {"planes.lines.events_index": event_at, "name": event.name, "ts": event.ts})
    tables.judge("events with their lines and planes", EVENTS, expected, "--with-parent", "--columns", "name,ts")
    expected = [
        {"planes.lines.events_index": event_at, "planes.lines.events.name": event.name, "key": event.args.key}
        for *_, (event_at, event) in rows_of(log)
        if event.HasField("args")
    ]
    path = tables.write(EVENTS + ".args", "parquet", "--with-parent", "--columns", "key")
    table = pyarrow.parquet.read_table(path).select(list(expected[0]))
    compare("a message in each event, with the event", table, expected)

    expected = [{"words_index": at, "words": word} for at, word in enumerate(log.words)]
    tables.judge("words, which aren't messages", "words[*]", expected, "--with-parent")
    path = tables.write("named[*]", "parquet", "--with-parent", "--columns", "name,args")
    table = pyarrow.parquet.read_table(path)
    order = {key: at for at, key in enumerate(plain(table.column("named_key")))}
    expected = [
        {"named_key": key, "name": log.named[key].name, "args": judged.at(log.named[key], "args")}
        for key in sorted(log.named, key=order.get)
    ]
    compare("the values of a map with their keys", table, expected)
    expected = [{"rank": line.rank} for line in log.planes[1].lines]
    tables.judge("some lines", "planes[1].lines[*]", expected, "--columns", "rank")
    expected = [{"name": row.name} for row in rows if row.name == rows[3].name]
    tables.judge("no rows", 'planes[*].lines[*].events[name="nothing is called so"]', [], "--columns", "name")
    del expected

    path = tables.write(EVENTS, "arrow", "--columns", ",".join(every))
    compare("an Arrow file, pyarrow", pyarrow.feather.read_table(path), of(every))
    compare("an Arrow file, polars", polars.read_ipc(path).to_arrow(), of(every))

    flat = ["name", "ts", "large", "level", "is_last", "plain", "maybe_number", "score"]
    path = tables.write(EVENTS, "csv", "--columns", ",".join(flat))
    with open(path, newline="") as file:
        found = list(csv.DictReader(file))
    text = lambda value: "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    same = [{name: text(row[name]) for name in flat[:-1]} for row in of(flat)]
    check("CSV, Python", [{name: row[name] for name in flat[:-1]} for row in found] == same)
    check("CSV, Python, floats", [float(row["score"]) for row in found] == [row.score for row in rows])
    with duckdb.connect() as connection:
        found = connection.sql(f"select large, maybe_number, level from read_csv('{path}')").fetchall()
    check("CSV, duckdb", found == [tuple(row[name] for name in ("large", "maybe_number", "level")) for row in of(flat)])
    table = polars.read_csv(path, infer_schema_length=None)
    check("CSV, polars", table["maybe_number"].to_list() == [row["maybe_number"] for row in of(flat)])
    return rows


def chunked(args, log, path, schema):
    split = args.work / "chunked"
    done = subprocess.run(
        [args.protosplit, "split", path, *schema, "--profile", "extended", "--max-chunk-size", "2KiB", "-o", split], capture_output=True
    )
    check("the log is split", done.returncode == 0, done.stderr.decode())
    tables = Tables(args, split.with_suffix(".cpb"), *schema)
    expected = [{"name": event.name, "args": judged.at(event, "args")} for *_, (_, event) in rows_of(log)]
    tables.judge("a file in chunks", EVENTS, expected, "--columns", "name,args")


def refused(args, log, path, schema, tables):
    """Checks that each failure prints one line with the cause, and leaves no output."""
    out = args.work / "refused.parquet"

    def refuse(what, tables, query, says, *options, kind="parquet", code=1):
        done = tables.run(query, "--format", kind, *options, "-o", str(out))
        line = done.stderr.decode()
        ok = done.returncode == code and all(text in line for text in says) and line.count("\n") == 1
        check(what, ok and not out.exists(), f"{done.returncode}: {line}")

    refuse("no such field", tables, EVENTS, ["nope: events.Event has no field nope"], "--columns", "nope", code=2)
    refuse("a duplicate field", tables, EVENTS, ["name: the column is selected twice"], "--columns", "name,name", code=2)
    refuse("below a map", tables, EVENTS, ["can't select values inside a map"], "--columns", "by_number.key", code=2)
    refuse("below a number", tables, EVENTS, ["ts is not a message"], "--columns", "ts.x", code=2)
    refuse("a list in CSV", tables, EVENTS, ["numbers: CSV can't hold a column of this kind, a list"], "--columns", "numbers", kind="csv")

    data = path.read_bytes()
    short = args.work / "short.pb"
    short.write_bytes(data[:-3])
    refuse("a file that ends in a message", Tables(args, short, *schema), "named[*]", [" at 0x"])
    # A message with an event whose field `name` is a number.
    other = args.work / "other.pb"
    line = b"\x0a\x02\x08\x07"
    plane = b"\x12" + bytes([len(line)]) + line
    begin = len(data)
    other.write_bytes(data + b"\x12" + bytes([len(plane)]) + plane)
    says = ["field name has a wire type that events.Event does not declare", f" at 0x{begin + 6:x}"]
    element = "planes[3].lines[0].events[0]: "
    refuse("elements of another type after some offset", Tables(args, other, *schema), EVENTS, [element, *says])
    # In a log of messages preceded by their lengths, the reported offset counts from the start of the file.
    delimited = args.work / "other.log"
    delimited.write_bytes(3 * b"\x02\x0a\x00" + b"\x02\x08\x07")
    delimited = Tables(args, delimited, "--delimited", "events.Event", *schema[2:])
    refuse("another type in a log", delimited, "message[*]", ["message[3]: ", says[0], " at 0xa"])
    line = b"\x0a\x04\x0a\x02\xff\xfe"
    plane = b"\x12" + bytes([len(line)]) + line
    other.write_bytes(data + b"\x12" + bytes([len(plane)]) + plane)
    refuse("a string that isn't UTF-8", Tables(args, other, *schema), EVENTS, ["not UTF-8", f" at 0x{begin + 6:x}"])
    far = type(log)()
    far.planes.add().lines.add().events.add().at.seconds = -62135596800
    other.write_bytes(far.SerializeToString())
    early = Tables(args, other, *schema)
    refuse("a time out of range", early, EVENTS, ["-62135596800 s is out of range"])
    table = pyarrow.parquet.read_table(early.write(EVENTS, "parquet", "--time-unit", "us", "--columns", "at"))
    check("the same time in microseconds", plain(table.column("at")) == [-62135596800 * 10**9])


def unnamed(args, log, schema):
    """Checks enum numbers without names, in several batches."""
    many = type(log)()
    line = many.planes.add().lines.add()
    levels = [at % 3 for at in range(200_000)]
    for at, number in [(70_000, 55), (140_000, 66), (199_999, 55)]:
        levels[at] = number
    for number in levels:
        line.events.add(level=number)
    path = args.work / "many.pb"
    path.write_bytes(many.SerializeToString())
    expected = [{"level": judged.enum_name(line.events[0].DESCRIPTOR.fields_by_name["level"], number)} for number in levels]
    tables = Tables(args, path, *schema)
    tables.judge("numbers without names", EVENTS, expected, "--columns", "level")
    found = pyarrow.feather.read_table(tables.write(EVENTS, "arrow", "--columns", "level"))
    compare("numbers without names in an Arrow file", found, expected)


def in_python(args, log, path, schema):
    """Reads tables in Python, without writing files."""
    source = pathlib.Path(__file__).parent / "events.proto"
    described = args.work / "events.desc"
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{source.parent}", "--include_imports"]
    subprocess.run([*command, f"--descriptor_set_out={described}", source], check=True)
    rows = [event for *_, (_, event) in rows_of(log)]
    every = [field.name for field in rows[0].DESCRIPTOR.fields]
    expected = [{name: judged.at(row, name) for name in every} for row in rows]
    with proto_splitter.open(path, message="events.Log", schema=described.read_bytes()) as file:
        events = file.table(EVENTS, columns=every)
        check("the columns have their names", events.column_names == every)
        compare("in Python, pyarrow", pyarrow.table(events), expected)
        check("the schema alone", pyarrow.schema(events).names == every)
        compare("in Python, polars", polars.DataFrame(events).to_arrow(), expected)
        # DuckDB finds this Python variable by its name, which must not be a keyword of SQL.
        named_events = file.table(EVENTS, columns=["name", "ts"], with_parent=True)
        with duckdb.connect() as connection:
            found = connection.sql('select sum(ts)::varchar, count(*), max("planes_index") from named_events').fetchall()
        check("in Python, duckdb", found == [(str(sum(row.ts for row in rows)), len(rows), 2)], found)
        del named_events
        for query, columns, says in [(EVENTS, ["nope"], "no field nope"), ("nope[*]", None, "no field nope")]:
            try:
                file.table(query, columns=columns)
                check(says, False)
            except proto_splitter.PathError as error:
                check(says, says in str(error), str(error))
    data = log.SerializeToString()
    with proto_splitter.open(data[:-3], message="events.Log", schema=described.read_bytes()) as file:
        try:
            pyarrow.table(file.table("named[*]"))
            check("a message that ends early", False)
        except Exception as error:
            check("a message that ends early", " at 0x" in str(error), str(error))


def at_random(args, seed):
    pool, described, rng = random_types.types(seed)
    root = random_types.root_class(pool)()
    for _ in range(rng.randint(0, 40)):
        random_types.fill(root.elements.add(), rng)
    path, schema = args.work / "random.pb", args.work / "random.desc"
    path.write_bytes(root.SerializeToString())
    schema.write_bytes(described)
    tables = Tables(args, path, "--message", "random.Root", "--descriptor-set", str(schema))
    names = [field.name for field in root.DESCRIPTOR.fields_by_name["elements"].message_type.fields]
    expected = [{name: judged.at(row, name) for name in names} for row in root.elements]
    only = ("pyarrow", "duckdb", "polars")[seed % 3]
    what = f"a type made at random, number {seed}"
    tables.judge(what, "elements[*]", expected, "--columns", ",".join(names), only=only)
    return path, schema, names, expected


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--protosplit", required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--seeds", type=int, default=150)
    parser.add_argument("--without-package", action="store_true", help="skip the checks that use the Python package")
    args = parser.parse_args()
    if not args.without_package:
        global proto_splitter
        import proto_splitter
    log, path, schema = events(args)
    tables = Tables(args, path, *schema)
    every_kind(args, log, tables)
    chunked(args, log, path, schema)
    refused(args, log, path, schema, tables)
    unnamed(args, log, schema)
    if not args.without_package:
        in_python(args, log, path, schema)
        recipes.run(args.protosplit, args.work, check)
        sequences.run(args.protosplit, args.work, check)
    for seed in range(args.seeds):
        at_random(args, seed)
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


main()
