from collections.abc import Callable, Sequence
from typing import Any, final, overload

__all__ = [
    "Buffer",
    "Handle",
    "MergedReader",
    "Pieces",
    "Sender",
    "Table",
    "TransferReceiver",
    "Tree",
    "__version__",
    "append",
    "command",
    "commit",
    "convert",
    "diff",
    "externalize",
    "fingerprint",
    "info",
    "internalize",
    "merge",
    "merge_to",
    "merge_to_bytes",
    "plan_merge",
    "plan_split",
    "plan_verify",
    "run_part",
    "split",
    "split_in_memory",
    "split_to",
    "transfer_descriptors",
    "transfer_check_target",
    "transfer_detail",
    "verify",
]

__version__: str

@final
class Buffer:
    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, at: int, /) -> int: ...
    @overload
    def __getitem__(self, at: slice, /) -> Buffer: ...
    def __bytes__(self) -> bytes: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __eq__(self, other: object, /) -> bool: ...

@final
class Pieces:
    def __new__(cls, file: int, pieces: Sequence[bytes | tuple[int, int]]) -> Pieces: ...
    def __len__(self) -> int: ...

@final
class MergedReader:
    def __new__(cls, source: Any, arguments: dict[str, Any]) -> MergedReader: ...
    def __len__(self) -> int: ...
    def read(self, offset: int, size: int) -> Buffer: ...

def split(
    source: Any,
    prefix: str,
    message: str,
    schema: bytes | None,
    arguments: dict[str, Any],
    progress: Callable[[int, int], object] | None,
) -> dict[str, Any]: ...
def split_to(
    source: Any,
    target: Any,
    message: str,
    schema: bytes | None,
    arguments: dict[str, Any],
    progress: Callable[[int, int], object] | None,
) -> dict[str, Any]: ...
def split_in_memory(
    source: Any,
    message: str,
    schema: bytes | None,
    arguments: dict[str, Any],
) -> tuple[list[Buffer], bytes]: ...
def merge(
    source: str,
    target: str,
    arguments: dict[str, Any],
    progress: Callable[[int, int], object] | None,
) -> dict[str, Any]: ...
def merge_to(
    source: Any,
    target: Any,
    arguments: dict[str, Any],
    progress: Callable[[int, int], object] | None,
) -> dict[str, Any]: ...
def merge_to_bytes(
    source: Any,
    arguments: dict[str, Any],
    progress: Callable[[int, int], object] | None,
) -> Buffer: ...
def command(arguments: Sequence[str]) -> int: ...
def plan_split(
    source: str,
    prefix: str,
    plan: str,
    type: tuple[str | None, bytes | None],
    arguments: dict[str, Any],
    parts: int | None,
) -> dict[str, Any]: ...
def plan_merge(
    source: str,
    target: str,
    plan: str,
    type: tuple[str | None, bytes | None],
    force: bool,
    parts: int | None,
) -> dict[str, Any]: ...
def plan_verify(
    source: str,
    plan: str,
    type: tuple[str | None, bytes | None],
    parts: int | None,
) -> dict[str, Any]: ...
def run_part(
    plan: tuple[str, str],
    part: int,
    report: str | None,
    threads: int | None,
    progress: Callable[[int, int], object] | None,
) -> dict[str, Any]: ...
def commit(
    plan: tuple[str, str],
    reports: Sequence[str],
    reread: bool,
    progress: Callable[[int, int], object] | None,
) -> dict[str, Any]: ...
def info(name: str, message: str | None) -> dict[str, Any]: ...
def verify(
    name: str,
    message: str | None,
    against: str | None,
    arguments: dict[str, Any],
    progress: Callable[[int, int], object] | None,
) -> dict[str, Any]: ...
def diff(
    first: str,
    second: str,
    message: str | None,
    limit: int,
    progress: Callable[[int, int], object] | None,
) -> dict[str, Any]: ...
def fingerprint(
    folder: str, progress: Callable[[int, int], object] | None
) -> dict[str, Any]: ...
def externalize(
    folder: str,
    output: str,
    arguments: dict[str, Any],
    progress: Callable[[int, int], object] | None,
) -> dict[str, Any]: ...
def convert(
    name: str,
    output: str,
    arguments: dict[str, Any],
    splitting: dict[str, Any],
    progress: Callable[[int, int], object] | None,
) -> dict[str, Any]: ...
def append(
    file: str,
    tensor: Any,
    arguments: dict[str, Any],
    progress: Callable[[int, int], object] | None,
) -> dict[str, Any]: ...
def internalize(
    folder: str,
    output: str,
    force: bool,
    progress: Callable[[int, int], object] | None,
) -> dict[str, Any]: ...

@final
class Tree:
    def __new__(
        cls,
        name: str,
        message: str | None,
        depth: int | None,
        top: int | None,
        min_size: int | None,
        progress: Callable[[int, int], object] | None,
    ) -> Tree: ...
    def report(self) -> dict[str, Any]: ...
    def text(self) -> str: ...
    def page(self) -> str: ...

@final
class Handle:
    def __new__(
        cls,
        source: Any,
        message: str | None,
        schema: bytes | None,
        n_threads: int | None,
        delimited: str | None,
    ) -> Handle: ...
    def close(self) -> None: ...
    @property
    def format(self) -> str | None: ...
    @property
    def files(self) -> list[Any]: ...
    @property
    def message_type(self) -> str | None: ...
    def get(self, path: str) -> Any: ...
    def get_into(self, path: str, buffer: Any) -> int: ...
    def size(self, path: str) -> int | None: ...
    def fields(self, path: str) -> list[tuple[str, int]]: ...
    def tensors(self) -> list[dict[str, Any]]: ...
    def table(
        self,
        query: str,
        columns: Sequence[str] | None,
        with_parent: bool,
        time_unit: str,
        n_threads: int | None,
    ) -> Table: ...
    def lod(self, name: str) -> list[list[int]]: ...
    def tensor_in_file(self, name: str) -> tuple[Any, int] | None: ...
    def strings(self, name: str) -> list[bytes]: ...
    def fill_tensors(
        self,
        names: Sequence[str],
        buffers: Sequence[Any],
        progress: Callable[[int, int], object] | None,
    ) -> None: ...
    def tensor_into(
        self,
        name: str,
        buffer: Any,
        progress: Callable[[int, int], object] | None,
    ) -> None: ...

@final
class Table:
    @property
    def column_names(self) -> list[str]: ...
    def schema(self) -> object: ...
    def stream(self) -> object: ...

def transfer_descriptors() -> bytes: ...
def transfer_check_target(target: str, force: bool) -> None: ...
def transfer_detail(details: bytes) -> bytes | None: ...

@final
class Sender:
    def __new__(
        cls,
        source: Any,
        message: str | None,
        schema: bytes | None,
        arguments: dict[str, Any],
    ) -> Sender: ...
    def progress(self) -> tuple[int, int]: ...
    def next(self) -> bytes | None: ...

@final
class TransferReceiver:
    def __new__(cls, arguments: dict[str, Any]) -> TransferReceiver: ...
    def push(self, frame: bytes) -> None: ...
    def end(self) -> None: ...
    def break_off(self) -> None: ...
    def token(self) -> bytes: ...
    def chunks(self) -> tuple[int, int]: ...
    def progress(self) -> tuple[int, int]: ...
    def write_file(self, target: str, force: bool, message: str | None) -> int: ...
    def merged(self, arguments: dict[str, Any]) -> MergedReader: ...
    def handle(self, message: str | None, schema: bytes | None) -> Handle: ...
    def arriving(self, message: str | None, schema: bytes | None) -> Handle | None: ...
