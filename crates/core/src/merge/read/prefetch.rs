//! Reading and checking a chunk on another thread while this thread parses it, since no other work
//! can begin before the chunk is parsed.

use std::io::{self, Read};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::thread;

use super::chunk_store::{ChunkInput, ChunkStore};
use crate::merge::read_options::ReadOptions;
use crate::wire::StreamInput;
use crate::{Error, Result};

/// Minimum size of a chunk that another thread reads ahead, in bytes: 4 MiB.
const AHEAD_FROM: u64 = 4 << 20;

/// Size of a window, which is a buffer for data that is read ahead: 256 KiB, small enough to stay
/// in the processor's cache until it is parsed.
const WINDOW: usize = 256 << 10;

/// Maximum number of windows to read ahead.
const WINDOWS: usize = 4;

/// Calls `walk` with a chunk, which another thread reads ahead if the chunk is large and the
/// options allow several threads.
pub(in crate::merge) fn with_input<'a, S: ChunkStore + ?Sized, T>(
    store: &'a S,
    chunk: usize,
    options: &ReadOptions,
    walk: impl FnOnce(ChunkInput<'a>) -> Result<T>,
) -> Result<T> {
    let is_small = store.size(chunk) < AHEAD_FROM || store.as_slice(chunk).is_some();
    if is_small || options.thread_count().get() == 1 {
        return walk(ChunkInput::open(store, chunk)?);
    }
    let (filled, windows) = mpsc::sync_channel(WINDOWS);
    let (used, to_fill) = mpsc::channel();
    thread::scope(|scope| {
        let reading = thread::Builder::new().spawn_scoped(scope, move || {
            match store.stream(chunk) {
                Ok(stream) => read(stream, &filled, &to_fill),
                // If the receiver is gone, `walk` has returned.
                Err(error) => drop(filled.send(Err(error.in_chunk(chunk).into()))),
            }
        });
        if reading.is_err() {
            return walk(ChunkInput::open(store, chunk)?);
        }
        let mut stream = Prefetcher {
            windows,
            used,
            window: Vec::new(),
            at: 0,
        };
        stream.refill()?;
        let stream: Box<dyn Read> = Box::new(stream);
        walk(ChunkInput::Stream(StreamInput::new(
            stream,
            store.size(chunk),
        )))
    })
}

type Window = io::Result<Vec<u8>>;

/// Reads a stream into windows and sends them, until the stream ends or the receiver is gone.
fn read(mut stream: Box<dyn Read + '_>, filled: &SyncSender<Window>, to_fill: &Receiver<Vec<u8>>) {
    loop {
        let mut window = to_fill.try_recv().unwrap_or_default();
        window.resize(WINDOW, 0);
        let got = read_full(&mut *stream, &mut window);
        let ends = !matches!(got, Ok(got) if got == WINDOW);
        let window = got.map(|got| {
            window.truncate(got);
            window
        });
        if filled.send(window).is_err() || ends {
            return;
        }
    }
}

fn read_full(stream: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match stream.read(&mut buffer[filled..])? {
            0 => break,
            got => filled += got,
        }
    }
    Ok(filled)
}

/// A stream of the data that another thread reads ahead, in windows.
struct Prefetcher {
    windows: Receiver<Window>,
    used: Sender<Vec<u8>>,
    window: Vec<u8>,
    at: usize,
}

impl Prefetcher {
    /// Waits for the next window, and makes it the current one. At the end of the data, the current
    /// window is empty.
    fn refill(&mut self) -> Result<()> {
        let next = self.windows.recv().unwrap_or_else(|_| Ok(Vec::new()));
        let used = std::mem::replace(&mut self.window, next.map_err(Error::from)?);
        self.at = 0;
        // If the reader is gone, everything has been read.
        drop(self.used.send(used));
        Ok(())
    }
}

impl Read for Prefetcher {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.window.len() {
            self.refill()?;
        }
        let got = (&self.window[self.at..]).read(buffer)?;
        self.at += got;
        Ok(got)
    }
}
