"""Checks sequences of messages against protobuf's own functions: each side reads the files that the other writes."""

import io
import random
import subprocess

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory, proto


def run(protosplit, work, check):
    folder = work / "sequences"
    folder.mkdir()
    schema = descriptor_pb2.FileDescriptorProto(name="log.proto", package="log", syntax="proto3")
    event = schema.message_type.add(name="Event")
    event.field.add(name="name", number=1, type=9, label=1)
    event.field.add(name="times", number=2, type=3, label=3)
    log = schema.message_type.add(name="Log")
    log.field.add(name="event", number=17, type=11, label=3, type_name=".log.Event")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(schema)
    Event, Log = (message_factory.GetMessageClass(pool.FindMessageTypeByName(f"log.{name}")) for name in ("Event", "Log"))
    (folder / "log.binpb").write_bytes(descriptor_pb2.FileDescriptorSet(file=[schema]).SerializeToString())

    numbers = random.Random(11)
    sizes = [0, 1, 300_000, 2, *(numbers.randrange(400) for _ in range(3000))]
    events = [Event(name="n" * size, times=[numbers.randrange(-(1 << 63), 1 << 63) for _ in range(size % 4)]) for size in sizes]
    written = io.BytesIO()
    for one in events:
        proto.serialize_length_prefixed(one, written)
    (folder / "events.log").write_bytes(written.getvalue())

    def command(*args):
        return subprocess.run([protosplit, *args, "--descriptor-set", "log.binpb"], cwd=folder, capture_output=True, text=True, check=True).stdout

    lines = command("cat", "events.log", "message[*]", "--format", "jsonl", "--max-value", "none", "--delimited", "log.Event").splitlines()
    read = [json_format.Parse(line, Event()) for line in lines]
    check("sequences: files written by protobuf are read", read == events, f"{len(read)} of {len(events)}")

    command("convert", "events.log", "-o", "log.pb", "--to", "pb", "--delimited", "log.Log.event")
    whole = Log.FromString((folder / "log.pb").read_bytes())
    check("sequences: as one message", list(whole.event) == events)
    for form, name in [("delimited", "again.log"), ("records", "again.riegeli")]:
        command("convert", "log.pb", "-o", name, "--to", form, "--message", "log.Log")
    again = io.BytesIO((folder / "again.log").read_bytes())
    parsed = [proto.parse_length_prefixed(Event, again) for _ in events]
    check("sequences: protobuf reads the written files", parsed == events and not again.read())
    check("sequences: the same bytes after a round trip", (folder / "again.log").read_bytes() == written.getvalue())
    command("convert", "again.riegeli", "-o", "back.log", "--to", "delimited")
    check("sequences: through records", (folder / "back.log").read_bytes() == written.getvalue())
