//! Sinks whose data can be made to survive a crash of the machine.
use std::fs::File;
use std::io::{self, BufWriter, Cursor, Write};

/// A sink that can ensure that written data survives a crash of the machine.
///
/// # Examples
///
/// ```no_run
/// use record_file::{RecordWriter, WriterOptions};
///
/// let file = std::fs::File::create("log.riegeli")?;
/// let mut writer = RecordWriter::new(file, WriterOptions::new())?;
/// writer.write_record(b"not to be lost")?;
/// writer.sync()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait SyncData {
    /// Waits until everything that was written would survive a crash of the machine.
    ///
    /// # Errors
    ///
    /// Any error from the sink. Bytes written before the call may then be lost.
    fn sync_data(&mut self) -> io::Result<()>;
}

impl SyncData for File {
    fn sync_data(&mut self) -> io::Result<()> {
        File::sync_data(self)
    }
}

impl SyncData for &File {
    fn sync_data(&mut self) -> io::Result<()> {
        File::sync_data(self)
    }
}

impl<T: SyncData + ?Sized> SyncData for &mut T {
    fn sync_data(&mut self) -> io::Result<()> {
        T::sync_data(self)
    }
}

impl<T: SyncData + ?Sized> SyncData for Box<T> {
    fn sync_data(&mut self) -> io::Result<()> {
        T::sync_data(self)
    }
}

impl<W: Write + SyncData> SyncData for BufWriter<W> {
    fn sync_data(&mut self) -> io::Result<()> {
        self.flush()?;
        self.get_mut().sync_data()
    }
}

/// Does nothing, since memory needs no syncing.
impl SyncData for Vec<u8> {
    fn sync_data(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<T> SyncData for Cursor<T> {
    fn sync_data(&mut self) -> io::Result<()> {
        Ok(())
    }
}
