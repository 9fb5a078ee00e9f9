//! The trait for splitters, and the context that a splitter uses.

use prost_reflect::{Kind, MessageDescriptor};

use super::cuts::DecidedChunk;
use super::decisions::{Added, AddedChunk, Decisions};
use super::split_plan::{Content, PlannedChunk};
use crate::container::{ChunkKind, Profile};
use crate::path::{FieldPath, Select, Step, TargetKind};
use crate::proto::VersionDef;
use crate::split::options::{SizeRules, SplitOptions};
use crate::split::read::source_view::elements::Element;
use crate::split::read::source_view::{Like, SourceView};
use crate::{Error, ErrorKind, Result};

/// A splitter, which decides which parts of a message become separate chunks.
///
/// Implement [`build_chunks`](Self::build_chunks); [`SplitExt`](crate::split::SplitExt) provides
/// planning, splitting and writing. A splitter is written for one message type, and can be used
/// alone or, with [`SplitContext::compose`], from the splitter for an enclosing type.
///
/// ```
/// use proto_splitter_core::split::{ComposableSplitter, SplitContext, SplitOptions};
/// use proto_splitter_core::Result;
///
/// /// Makes a chunk of every message type that a file describes.
/// struct FileSplitter;
///
/// impl ComposableSplitter for FileSplitter {
///     fn build_chunks(&self, cx: &mut SplitContext<'_>) -> Result<()> {
///         for message in cx.message().repeated("message_type")? {
///             cx.cut(&message?.view())?;
///         }
///         Ok(())
///     }
/// }
/// ```
pub trait ComposableSplitter {
    /// Decides which parts of `cx.message()` become chunks, by calling `cx.cut`, `cx.slice_at` or
    /// `cx.fit`.
    ///
    /// # Errors
    ///
    /// Any error the splitter returns; create one with [`Error::new`](crate::Error::new).
    fn build_chunks(&self, cx: &mut SplitContext<'_>) -> Result<()>;

    /// Returns the version of the splitter, which is stored in the file. Readers ignore it.
    fn version(&self) -> i32 {
        1
    }

    /// Returns the versions to store in the file. Default: the splitter's [version](Self::version).
    ///
    /// The join version must be 0 or the join version of the file's
    /// [profile](crate::container::Profile); 0 stands for the latter. Readers whose join version is
    /// among `bad_consumers` refuse the file.
    fn version_def(&self) -> VersionDef {
        VersionDef {
            splitter_version: self.version(),
            ..VersionDef::default()
        }
    }

    /// Returns the type of message that the splitter is for; `None`, the default, if it supports
    /// any type. A splitter with a type can [write](crate::split::SplitExt::write) or
    /// [plan](crate::split::SplitExt::plan) a split of a file, given only the file's path, and
    /// refuses messages of other types.
    fn message_type(&self) -> Option<MessageDescriptor> {
        None
    }
}

impl<T: ComposableSplitter + ?Sized> ComposableSplitter for &T {
    fn build_chunks(&self, cx: &mut SplitContext<'_>) -> Result<()> {
        (**self).build_chunks(cx)
    }

    fn version(&self) -> i32 {
        (**self).version()
    }

    fn version_def(&self) -> VersionDef {
        (**self).version_def()
    }

    fn message_type(&self) -> Option<MessageDescriptor> {
        (**self).message_type()
    }
}

impl<T: ComposableSplitter + ?Sized> ComposableSplitter for Box<T> {
    fn build_chunks(&self, cx: &mut SplitContext<'_>) -> Result<()> {
        (**self).build_chunks(cx)
    }

    fn version(&self) -> i32 {
        (**self).version()
    }

    fn version_def(&self) -> VersionDef {
        (**self).version_def()
    }

    fn message_type(&self) -> Option<MessageDescriptor> {
        (**self).message_type()
    }
}

/// Error message for cuts that TensorFlow's profile doesn't allow, since TensorFlow's Merger aborts
/// on chunks for elements.
const ELEMENT: &str = "a string or bytes value that is an element or in a map can only be cut in the profile `extended`";

/// Fails if the splitter is for messages of another type.
pub(in crate::split) fn check_type<S>(splitter: &S, message: &SourceView<'_>) -> Result<()>
where
    S: ComposableSplitter + ?Sized,
{
    let (Some(wanted), Some(found)) = (splitter.message_type(), message.descriptor()) else {
        return Ok(());
    };
    let (wanted, found) = (wanted.full_name(), found.full_name());
    if wanted == found {
        return Ok(());
    }
    let message = format!("the splitter of {wanted} was given a {found}");
    Err(Error::new(ErrorKind::InvalidConfig, message))
}

/// The context of a splitter: the message to split, and the operations on it.
///
/// A child splitter gets a separate context for a message inside this message. The paths of its
/// cuts still start at the root.
#[derive(Debug)]
pub struct SplitContext<'a> {
    pub(in crate::split) decisions: &'a mut Decisions,
    pub(in crate::split) view: SourceView<'a>,
}

impl<'a> SplitContext<'a> {
    /// Returns the message to split.
    pub fn message(&self) -> SourceView<'a> {
        self.view.clone()
    }

    /// Returns the options for the split.
    pub fn options(&self) -> &SplitOptions {
        &self.decisions.options
    }

    /// Splits a message inside this message with a child splitter.
    ///
    /// # Errors
    ///
    /// Any error from the child; [`ErrorKind::InvalidPath`] if `message` is not a message;
    /// [`ErrorKind::InvalidConfig`] if its type differs from the child's
    /// [type](ComposableSplitter::message_type).
    pub fn compose(
        &mut self,
        child: &dyn ComposableSplitter,
        message: &SourceView<'_>,
    ) -> Result<()> {
        if message.descriptor().is_none() {
            return Err(Error::new(
                ErrorKind::InvalidPath,
                "the splitter is applied to a field that is not a message",
            )
            .at_path(message.display_path()));
        }
        check_type(child, message).map_err(|error| error.at_path(message.display_path()))?;
        let view = message.clone();
        child.build_chunks(&mut SplitContext {
            decisions: &mut *self.decisions,
            view,
        })
    }

    /// Cuts a value into a separate chunk: a message, or a singular bytes or string field. Does
    /// nothing for a map entry without a value.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Uncuttable`] for values to which no path can lead: a message written in several
    /// pieces; a value of a oneof that another member supersedes; and, in TensorFlow's profile, an
    /// element of a repeated bytes or string field, or a bytes or string value in a map.
    pub fn cut(&mut self, value: &SourceView<'_>) -> Result<()> {
        let uncuttable = |message: &str| {
            Err(Error::new(ErrorKind::Uncuttable, message).at_path(value.display_path()))
        };
        let kind = match value.like() {
            Like::Message => ChunkKind::Message,
            Like::Bytes => ChunkKind::Bytes,
            Like::Element if self.decisions.options.profile == Profile::Extended => {
                ChunkKind::Bytes
            }
            Like::Element => {
                return uncuttable(ELEMENT);
            }
        };
        let chains = value.chains();
        let chain = match chains.as_slice() {
            [chain @ Some(_)] => chain,
            // The value of the map entry was omitted.
            [] => return Ok(()),
            _ => {
                return uncuttable(
                    "only a value inside the message that is written in one piece can be cut",
                );
            }
        };
        if !value.addressable {
            return uncuttable(
                "can't cut the value: it is superseded, a path can't contain its key, or an earlier value with the same key is invalid",
            );
        }
        self.decisions.marks.cut(chain, &value.path(), kind);
        Ok(())
    }

    /// Begins a slice at an element of a repeated field. The slice is a chunk with this and the
    /// following elements, up to the next element for which this method is called, or to the end of
    /// the field. Elements before the first slice stay in the message, and the element with index 0
    /// always stays: for that element, this method does nothing.
    ///
    /// ```
    /// use proto_splitter_core::Result;
    /// use proto_splitter_core::split::{ComposableSplitter, SplitContext, SplitExt, SplitOptions};
    /// # use prost_reflect::prost_types::{DescriptorProto, FileDescriptorProto};
    ///
    /// /// A chunk for every two types that a file describes.
    /// struct InTwos;
    ///
    /// impl ComposableSplitter for InTwos {
    ///     fn build_chunks(&self, cx: &mut SplitContext<'_>) -> Result<()> {
    ///         for (at, message) in cx.message().repeated("message_type")?.enumerate() {
    ///             if at % 2 == 0 {
    ///                 cx.slice_at(&message?)?;
    ///             }
    ///         }
    ///         Ok(())
    ///     }
    /// }
    ///
    /// # let file = FileDescriptorProto {
    /// #     message_type: vec![DescriptorProto { name: Some("T".into()), ..Default::default() }; 5],
    /// #     ..Default::default()
    /// # };
    /// let plan = InTwos.plan(&file, &SplitOptions::new())?;
    /// assert_eq!(plan.to_string(), "0 MESSAGE 10 B\n1 MESSAGE 10 B\n2 MESSAGE 5 B\n");
    /// # Ok::<(), proto_splitter_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Uncuttable`] for elements to which no path can lead, as for [`cut`](Self::cut).
    /// [`plan`](crate::split::SplitExt::plan) fails with the same kind if [`fit`](Self::fit) is
    /// also called for the message with the field, since fitting also slices the field.
    pub fn slice_at(&mut self, element: &Element<'_>) -> Result<()> {
        if element.index() == 0 {
            return Ok(());
        }
        let message = element.message();
        if !message.addressable || message.piece_count() != 1 {
            let why = "its message is superseded, written in pieces, or has a key that a path can't contain";
            let path = element.view().display_path();
            return Err(Error::new(ErrorKind::Uncuttable, why).at_path(path));
        }
        self.decisions.slices.begin(element);
        Ok(())
    }

    /// Cuts parts of the message, chosen by sizes alone, until every MESSAGE chunk is within the
    /// maximum size.
    ///
    /// The cuts are made after all splitters have returned, so it doesn't matter when this method
    /// is called, and a child splitter may also call it. A message that is already within the
    /// maximum is not cut.
    ///
    /// # Errors
    ///
    /// This method never fails. [`plan`](crate::split::SplitExt::plan) fails with
    /// [`ErrorKind::Uncuttable`] and the path and size of a part that is too large and can't be
    /// cut, or [`ErrorKind::InvalidMessage`] if the source is malformed.
    pub fn fit(&mut self) -> Result<()> {
        self.fit_with(&SizeRules::new())
    }

    /// Does the same as [`fit`](Self::fit), with rules that forbid some cuts.
    ///
    /// # Errors
    ///
    /// The same errors as [`fit`](Self::fit).
    pub fn fit_with(&mut self, rules: &SizeRules) -> Result<()> {
        self.decisions.fits.add(&self.view, rules);
        Ok(())
    }

    /// Omits the message itself, so that only [added](Self::add_chunk) chunks are written,
    /// beginning with index 0.
    ///
    /// # Errors
    ///
    /// This method never fails. [`plan`](crate::split::SplitExt::plan) fails with
    /// [`ErrorKind::InvalidConfig`] if the message isn't empty, or nothing was added.
    pub fn leave_out_message(&mut self) -> Result<()> {
        self.decisions.has_base = false;
        Ok(())
    }

    /// Adds a chunk with bytes that are not from the source.
    ///
    /// The chunk's place is `path`, relative to the message of this context, with the semantics of
    /// TensorFlow's Merger: a message is merged into the existing value, and bytes replace the
    /// field. `index` is the chunk's position among all chunks; `None` means the end. A file with
    /// added chunks has no placeholders, so merging it requires its schema.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidPath`] if the path is impossible, or doesn't lead to a single value of
    /// the chunk's kind: a message, or a bytes or string value; [`ErrorKind::Uncuttable`] in
    /// TensorFlow's profile, as for [`cut`](Self::cut), for an element of a repeated bytes or
    /// string field, or a bytes or string value in a map.
    ///
    /// [`plan`](crate::split::SplitExt::plan) fails with [`ErrorKind::InvalidPath`] if the path has
    /// an index that leaves a gap: an added element of a repeated field must be the next one,
    /// counting the elements of the message and of other chunks.
    pub fn add_chunk(
        &mut self,
        chunk: AddedChunk,
        path: &FieldPath,
        index: Option<usize>,
    ) -> Result<()> {
        let path = self.view.path().concat(path);
        let root = self.decisions.source.descriptor();
        let target = path.resolve(root)?;
        let (kind, bytes) = match chunk {
            AddedChunk::Message(bytes) => (ChunkKind::Message, bytes),
            AddedChunk::Bytes(bytes) => (ChunkKind::Bytes, bytes),
        };
        let refuse = |error, message: String| {
            Err(Error::new(error, message).at_path(path.display(Some(root))))
        };
        let is_message = match &target.kind {
            TargetKind::Message(_) | TargetKind::Group(_) => true,
            TargetKind::Scalar(Kind::Bytes | Kind::String) => false,
            TargetKind::Scalar(_) => {
                let message = "the value is neither a message, bytes nor a string";
                return refuse(ErrorKind::InvalidPath, message.to_owned());
            }
        };
        if target.whole_field || is_message != (kind == ChunkKind::Message) {
            return refuse(
                ErrorKind::InvalidPath,
                format!("a {kind} chunk doesn't fit here"),
            );
        }
        let is_element = |step: &Step| !matches!(step.select, Select::Field);
        if !is_message
            && path.steps().last().is_some_and(is_element)
            && self.decisions.options.profile != Profile::Extended
        {
            return refuse(ErrorKind::Uncuttable, ELEMENT.to_owned());
        }
        let size = bytes.len() as u64;
        let content = Content::Added(bytes);
        let chunk = PlannedChunk {
            decided: DecidedChunk::new(path, kind),
            parent: None,
            size,
            content,
        };
        self.decisions.added.push(Added { chunk, index });
        Ok(())
    }
}
