//! Writing the files of a model in the requested arrangement.

use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use proto_splitter_core::merge::FilePlace;
use proto_splitter_core::progress::Meter;
use proto_splitter_core::{Error, ErrorKind, MessageOffset, MessageReader, Result};

use super::incoming::Incoming;
use super::staging::Staging;
use super::{Arrangement, PaddleWriteOptions, WrittenModel};
use crate::model::{OLD_PARAMETERS, OLD_PROGRAM, ProgramKind};
use crate::stream::{Layout, StreamKind};

/// Size of the buffer for writing a file: 256 KiB.
const BUFFER_LEN: usize = 256 << 10;

/// Maximum number of files that stay open until their large parts are copied: 64.
const MAX_WAITING: usize = 64;

/// Minimum size of a message range that threads copy later: 256 KiB.
const LEAST_GAP: u64 = 256 << 10;

/// A range of the message that threads will copy to a file later.
#[derive(Debug)]
struct Gap {
    /// Range in the message.
    range: Range<u64>,
    file: Arc<File>,
    /// Offset in the file to which the range will be copied.
    offset: u64,
}

impl Gap {
    fn place(&self) -> FilePlace<'_> {
        FilePlace {
            range: MessageOffset::range(&self.range),
            file: &self.file,
            offset: self.offset,
        }
    }
}

/// A writer that writes the files of a model one after another. It skips large parts. Threads copy
/// them after the other parts have been written.
pub(super) struct Files<'m> {
    staging: Staging,
    message: &'m MessageReader,
    meter: &'m Meter,
    /// Ranges of the message that haven't been copied yet.
    gaps: Vec<Gap>,
    /// Files that contain gaps, except for the file that is being written.
    waiting: Vec<Arc<File>>,
    threads: Option<NonZeroUsize>,
    arrangement: Arrangement,
    /// Name of the program's file in the output; `None` until the program begins.
    program: Option<String>,
    /// Name of the program's file according to the message.
    program_stored: Option<String>,
    kind: Option<ProgramKind>,
    parameters: Stored,
    companion: Option<String>,
    /// Names of companion files that aren't written, since they don't fit the arrangement.
    left_out: Vec<String>,
    /// The file that is being written; `None` if received bytes are discarded.
    open: Option<BufWriter<Arc<File>>>,
    /// Number of parameter files in the part of the message that was received so far.
    seen: u32,
    /// Name of the previous parameter, to check the order when parameters are combined in one file.
    last: Option<String>,
}

/// Description of the current parameter file. In the message, the description precedes the file's
/// parameters.
#[derive(Debug, Default)]
struct Stored {
    file: Option<String>,
    layout: Layout,
    separate: bool,
    /// True after `begin_parameter_file` was called for this parameter file.
    has_begun: bool,
}

impl<'m> Files<'m> {
    pub(super) fn new(
        staging: Staging,
        options: &PaddleWriteOptions,
        message: &'m MessageReader,
        meter: &'m Meter,
    ) -> Files<'m> {
        Files {
            staging,
            message,
            meter,
            gaps: Vec::new(),
            waiting: Vec::new(),
            threads: options.threads,
            arrangement: options.arrangement,
            program: None,
            program_stored: None,
            kind: None,
            parameters: Stored::default(),
            companion: None,
            left_out: Vec::new(),
            open: None,
            seen: 0,
            last: None,
        }
    }

    pub(super) fn program_file(&mut self, name: String) -> Result<()> {
        check_plain(&name)?;
        self.program_stored = Some(name);
        Ok(())
    }

    pub(super) fn begin_program(&mut self, kind: ProgramKind) -> Result<()> {
        if self.kind.is_some() {
            return Err(Error::invalid(
                "a model has either a ProgramDesc or JSON, not both",
            ));
        }
        let separate = matches!(self.arrangement, Arrangement::Separate(_));
        if separate && kind == ProgramKind::Pir {
            let message = "a program in JSON has all parameters in one file, not one file for each";
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        }
        self.kind = Some(kind);
        let name = match (separate, &self.program_stored) {
            (true, _) => OLD_PROGRAM.to_owned(),
            (false, Some(stored)) => stored.clone(),
            (false, None) => match kind {
                ProgramKind::Desc => "model.pdmodel".to_owned(),
                ProgramKind::Pir => "model.json".to_owned(),
            },
        };
        if separate {
            // Fails early if readers would take an existing `__params__` for a part of the output.
            self.staging.check_unrivalled([OLD_PARAMETERS.into()])?;
        }
        self.create(&name)?;
        self.program = Some(name);
        Ok(())
    }

    pub(super) fn companion(&mut self, name: String) -> Result<()> {
        check_plain(&name)?;
        self.companion = Some(name);
        Ok(())
    }

    pub(super) fn begin_companion(&mut self) -> Result<()> {
        let name = self.companion.take();
        let name =
            name.ok_or_else(|| Error::invalid("a companion file of the model has no name"))?;
        // The previous parameter file may still be open.
        self.end_file()?;
        match self.arrangement {
            // Companions belong to a file with all parameters, which isn't written in this
            // arrangement.
            Arrangement::Separate(_) => {
                self.left_out.push(name);
                Ok(())
            }
            _ => self.create(&name),
        }
    }

    pub(super) fn end_companion(&mut self) -> Result<()> {
        match self.companion.take() {
            // The companion had no content, so its file wasn't created yet.
            Some(name) => {
                self.companion = Some(name);
                self.begin_companion()?;
                self.end_file()
            }
            None => Ok(()),
        }
    }

    pub(super) fn parameter_file(&mut self, name: String) -> Result<()> {
        self.parameters.file = Some(name);
        Ok(())
    }

    pub(super) fn layout(&mut self, layout: Layout) -> Result<()> {
        self.parameters.layout = layout;
        Ok(())
    }

    pub(super) fn separate(&mut self, separate: bool) {
        self.parameters.separate = separate;
    }

    /// Creates the output file for the parameters of a parameter file, unless the parameters are
    /// added to an existing output file, or each parameter gets a separate file. Must be called
    /// when the fields before the first parameter are known.
    pub(super) fn begin_parameter_file(&mut self) -> Result<()> {
        if self.parameters.has_begun {
            return Ok(());
        }
        self.parameters.has_begun = true;
        self.seen += 1;
        match self.arrangement {
            Arrangement::Original => {
                let name = self.parameters.file.clone();
                let name = name.ok_or_else(|| Error::invalid("a parameter file has no name"))?;
                if !self.parameters.separate {
                    check_plain(&name)?;
                }
                self.create(&name)
            }
            Arrangement::Combined(_) if self.seen == 1 => {
                let name = self.combined_name();
                self.create(&name)
            }
            Arrangement::Combined(_) | Arrangement::Separate(_) => Ok(()),
        }
    }

    /// Returns the name that Paddle expects for a file with all parameters, given the program's
    /// name.
    fn combined_name(&self) -> String {
        let stem = |name: &str| match name.rsplit_once('.') {
            Some((stem, "pdmodel" | "json")) => format!("{stem}.pdiparams"),
            _ => OLD_PARAMETERS.to_owned(),
        };
        match (&self.program, &self.parameters.file) {
            (Some(program), _) => stem(program),
            (None, Some(file)) if !self.parameters.separate && check_plain(file).is_ok() => {
                file.clone()
            }
            (None, _) => "model.pdiparams".to_owned(),
        }
    }

    pub(super) fn end_parameter_file(&mut self) -> Result<()> {
        self.begin_parameter_file()?;
        self.parameters = Stored::default();
        match self.arrangement {
            Arrangement::Original => self.end_file(),
            _ => Ok(()),
        }
    }

    pub(super) fn begin_parameter(&mut self, incoming: &mut Incoming) -> Result<()> {
        let layout = match self.arrangement {
            Arrangement::Original => self.parameters.layout,
            Arrangement::Combined(layout) => {
                self.check_order(incoming)?;
                let is_rows = incoming.kind == StreamKind::SelectedRows;
                if is_rows && layout.is_read_by_paddle() && self.program.is_some() {
                    let message = "Paddle loads selected rows only from a separate file, not from a file of all \
                                   parameters: convert to `separate`";
                    return Err(Error::new(ErrorKind::InvalidConfig, message));
                }
                layout
            }
            Arrangement::Separate(layout) => {
                let name = incoming.name.as_deref();
                let name = name.ok_or_else(|| {
                    let message = "a parameter without a name can't have a separate file";
                    Error::new(ErrorKind::InvalidConfig, message)
                })?;
                self.create(name)?;
                layout
            }
        };
        let open = self
            .open
            .as_mut()
            .ok_or_else(|| Error::invalid("no file is open for a parameter"))?;
        incoming.write_front(layout, open)
    }

    /// Fails unless parameters from separate files are in the order of their names, since Paddle
    /// reads a file with all parameters in this order.
    fn check_order(&mut self, incoming: &Incoming) -> Result<()> {
        if self.seen > 1 && incoming.name <= self.last {
            return Err(Error::invalid(
                "files of one parameter each aren't in the order of their names",
            ));
        }
        self.last.clone_from(&incoming.name);
        Ok(())
    }

    pub(super) fn end_parameter(&mut self, incoming: &mut Incoming) -> Result<()> {
        if let Some(open) = &mut self.open {
            incoming.write_rest(open)?;
        }
        match self.arrangement {
            Arrangement::Separate(_) => self.end_file(),
            _ => Ok(()),
        }
    }

    /// Writes bytes to the current file, or discards them if no file is open.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        match &mut self.open {
            Some(open) => Ok(open.write_all(bytes)?),
            None => Ok(()),
        }
    }

    /// Leaves a gap in the current file for a range of the message. Threads copy the range later.
    /// Returns false if the range is too small for that, so that the caller has to write it.
    pub(super) fn leave_out(&mut self, range: &Range<u64>) -> Result<bool> {
        let len = range.end - range.start;
        if len < LEAST_GAP {
            return Ok(false);
        }
        let Some(open) = &mut self.open else {
            // The range is discarded, since no file is open for it.
            self.meter.advance(len)?;
            return Ok(true);
        };
        let offset = open.stream_position()?;
        let end = offset.checked_add(len);
        let end = end.ok_or_else(|| Error::invalid("a file of more than 2^64 bytes"))?;
        open.seek(SeekFrom::Start(end))?;
        self.gaps.push(Gap {
            range: range.clone(),
            file: Arc::clone(open.get_ref()),
            offset,
        });
        Ok(true)
    }

    /// Completes the current file and syncs it to the disk. If the file has gaps, it is only synced
    /// once these are filled.
    pub(super) fn end_file(&mut self) -> Result<()> {
        let Some(mut open) = self.open.take() else {
            return Ok(());
        };
        let size = open.stream_position()?;
        let file = open.into_inner().map_err(|error| error.into_error())?;
        let has_gaps = self
            .gaps
            .last()
            .is_some_and(|gap| Arc::ptr_eq(&gap.file, &file));
        if !has_gaps {
            return Ok(file.sync_all()?);
        }
        file.set_len(size)?;
        self.waiting.push(file);
        if self.waiting.len() < MAX_WAITING {
            Ok(())
        } else {
            self.fill_gaps()
        }
    }

    /// Copies all skipped ranges to their files with several threads, and then syncs these files to
    /// the disk.
    fn fill_gaps(&mut self) -> Result<()> {
        let gaps = std::mem::take(&mut self.gaps);
        let places: Vec<_> = gaps.iter().map(Gap::place).collect();
        self.message
            .copy_to_files(&places, self.threads, self.meter)?;
        self.waiting
            .drain(..)
            .try_for_each(|file| Ok(file.sync_all()?))
    }

    /// Completes all files, after the last byte of the message.
    pub(super) fn end(&mut self) -> Result<()> {
        self.end_file()?;
        self.fill_gaps()
    }

    /// Moves all files to the output folder.
    pub(super) fn commit(self, folder: &Path) -> Result<WrittenModel> {
        Ok(WrittenModel {
            folder: folder.to_owned(),
            files: self.staging.commit(self.program.as_deref())?,
            left_out: self.left_out,
        })
    }

    fn create(&mut self, name: &str) -> Result<()> {
        self.end_file()?;
        let file = self.staging.file(name)?;
        self.open = Some(BufWriter::with_capacity(BUFFER_LEN, Arc::new(file)));
        Ok(())
    }
}

/// Fails unless a name is that of a file directly in the model's folder.
fn check_plain(name: &str) -> Result<()> {
    let is_plain = !name.contains(['/', '\\', '\0']) && !matches!(name, "" | "." | "..");
    if is_plain {
        Ok(())
    } else {
        let message = format!("the name {name:?} isn't a plain file name");
        Err(Error::new(ErrorKind::InvalidPath, message))
    }
}
