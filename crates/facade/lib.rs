//! Splits protobuf messages over 2 GiB into one seekable, checksummed file and merges them back.
