// Messages for the tests, byte by byte.

import { createWriteStream } from "node:fs";
import { once } from "node:events";

const varint = (value) => {
  const bytes = [];
  while (value >= 0x80) {
    bytes.push((value & 0x7f) | 0x80);
    value = Math.floor(value / 128);
  }
  return Buffer.from([...bytes, value]);
};
const field = (number, content) => {
  const bytes = typeof content === "string" ? Buffer.from(content) : content;
  return Buffer.concat([varint(number * 8 + 2), varint(bytes.length), bytes]);
};

// Returns a tensorflow.NodeDef with a name, an op, and an attribute of `bytes` bytes.
export const node = (name, op, key, bytes) => {
  const entry = Buffer.concat([field(1, key), field(2, field(2, Buffer.alloc(bytes, 1)))]);
  return Buffer.concat([field(1, name), field(2, op), field(5, entry)]);
};

// Writes a tensorflow.GraphDef with nodes that come from an iterator.
export const writeGraph = async (path, nodes) => {
  const out = createWriteStream(path);
  let block = [];
  let length = 0;
  for (const bytes of nodes) {
    const element = field(1, bytes);
    block.push(element);
    length += element.length;
    if (length > 1 << 20) {
      if (!out.write(Buffer.concat(block))) await once(out, "drain");
      [block, length] = [[], 0];
    }
  }
  out.end(Buffer.concat(block));
  await once(out, "close");
};
