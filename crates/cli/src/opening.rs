//! Opening the inputs of a command. Inputs are opened only in this module, and each only once.

use std::borrow::Cow;
use std::fs;
use std::path::Path;

use prost_reflect::MessageDescriptor;
use proto_splitter::formats::{ALL, Format};
use proto_splitter::merge::Limits;
use proto_splitter::path::FieldPath;
use proto_splitter::progress::Progress;
use proto_splitter::sequences::SequenceFormat;
use proto_splitter::view::FieldEntry;
use proto_splitter::{Error, OpenOptions, Opened};

use crate::args::{CompanionArgs, ReadingArgs, SchemaArgs};
use crate::display_name::shown;
use crate::failure::Failure;
use crate::input::Input;
use crate::open_objects::OpenObjects;
use crate::place::{Place, locate, named_format};
use crate::types::Types;

/// Options for opening the input of a command.
#[derive(Clone)]
pub(crate) struct Opening<'a> {
    schema: Cow<'a, SchemaArgs>,
    options: OpenOptions,
    objects: OpenObjects,
}

impl<'a> Opening<'a> {
    /// Creates options from the arguments for the message's type, with the given limits.
    pub(crate) fn new(
        schema: &'a SchemaArgs,
        limits: Limits,
        objects: &OpenObjects,
    ) -> Opening<'a> {
        Opening {
            schema: Cow::Borrowed(schema),
            options: OpenOptions::new().limits(limits),
            objects: objects.clone(),
        }
    }

    /// Creates options from the arguments for reading a message, which several commands share.
    pub(crate) fn of(reading: &'a ReadingArgs, objects: &OpenObjects) -> Opening<'a> {
        let opening = Opening::new(&reading.schema, reading.limits(), objects);
        opening.with(|options| options.assume_plain(reading.assume_plain))
    }

    /// Returns the store objects that the command has opened.
    pub(crate) fn objects(&self) -> &OpenObjects {
        &self.objects
    }

    pub(crate) fn progress(mut self, progress: Progress) -> Self {
        self.options = self.options.progress(progress);
        self
    }

    /// Sets whether the command only inspects the message. If so, missing external files aren't an
    /// error.
    pub(crate) fn looked_at(mut self, is_looked_at: bool) -> Self {
        self.options = self.options.allow_missing_files(is_looked_at);
        self
    }

    /// Changes the options with which the input is opened.
    pub(crate) fn with(mut self, set: impl FnOnce(OpenOptions) -> OpenOptions) -> Self {
        self.options = set(self.options);
        self
    }

    /// Locates and opens the input that an argument names.
    pub(crate) fn open(self, named: &Path) -> Result<Input, Failure> {
        let place = locate(named, &self.schema.companion)?;
        self.open_at(place)
    }

    /// Opens the input at the given location.
    pub(crate) fn open_at(self, place: Place) -> Result<Input, Failure> {
        let Opening {
            schema,
            options,
            objects,
        } = self;
        let companion = &schema.companion;
        if let Some(program) = &companion.program {
            fs::metadata(program).map_err(|error| Failure::io(program, &error))?;
        }
        let types = Types::load_for(&schema, place.path())?;
        let mut options = options
            .descriptor(types.asked().cloned())
            .schemas(types.given().clone())
            .companion(companion.program.clone());
        let mut format = named_format(companion);
        if let Some(root) = types.sequence() {
            format = Some(&SequenceFormat);
            options = root.opening(options);
        }
        let candidate = place.candidate(&objects)?;
        let failed = |error: Error| Failure::of(place.path(), &error);
        // A record file may be in a different format than the one that `--input-format` specifies.
        let is_another = |format: &dyn Format| {
            let known = ALL.recognize(&candidate);
            known.is_none_or(|known| known.name() != format.name())
        };
        let open = |options: &OpenOptions| match format {
            Some(format)
                if !format.reads_any_records()
                    && candidate.is_chunked().map_err(failed)?
                    && is_another(format) =>
            {
                Err(Failure::usage(format!(
                    "--input-format: {}: a file in chunks can't be read in another format",
                    shown(place.path())
                )))
            }
            Some(format) => ALL
                .open_input_as(format, &candidate, options)
                .map_err(failed),
            None => ALL.open_input(&candidate, options).map_err(failed),
        };
        let mut opened = open(&options)?;
        if opened.has_message()
            && opened.descriptor().is_none()
            && opened.recorded_type().is_none()
            && let Some(root) = types.only_root(place.path())?
        {
            opened = open(&options.descriptor(Some(root)))?;
        } else if opened.has_message()
            && opened.descriptor().is_none()
            && let Some((pool, root)) =
                Types::beside(&schema, place.path(), opened.recorded_type(), |root| {
                    looks_like(&opened, root)
                })
        {
            opened = open(&options.schemas(pool).descriptor(Some(root)))?;
        }
        drop(candidate);
        let input = Input::new(place, opened);
        input.check_asked(&types)?;
        Ok(input)
    }

    /// Removes the companion options. Use this for an input to which these options don't apply.
    pub(crate) fn alone(mut self) -> Self {
        self.schema.to_mut().companion = CompanionArgs::default();
        self
    }

    /// Opens two inputs. If companion options are given, and one of the inputs can't be opened with
    /// them, this input is opened without them.
    pub(crate) fn open_both(self, named: [&Path; 2]) -> Result<[Input; 2], Failure> {
        let [first, second] = named.map(|named| self.clone().open(named));
        let is_named = self.schema.companion.is_named();
        match (first, second) {
            (Ok(first), Ok(second)) => Ok([first, second]),
            (Ok(first), Err(_)) if is_named => Ok([first, self.alone().open(named[1])?]),
            (Err(_), Ok(second)) if is_named => Ok([self.alone().open(named[0])?, second]),
            (Err(failure), _) | (_, Err(failure)) => Err(failure),
        }
    }
}

/// Opens the file at the given location as a message of unknown type, without detecting its format.
pub(crate) fn open_bytes(place: Place, objects: &OpenObjects) -> Result<Input, Failure> {
    let source = place.candidate(objects)?.source();
    let opened = source.and_then(|bytes| Opened::of_reader(bytes, None, &OpenOptions::new()));
    let opened = opened.map_err(|error| Failure::of(&place.file, &error))?;
    let opened = opened.named(&place.file).reading([&place.file]);
    Ok(Input::new(place, opened))
}

/// Returns true if the type `root` declares the first fields of a message.
fn looks_like(opened: &Opened, root: &MessageDescriptor) -> bool {
    /// Maximum number of the message's fields to look up in the type.
    const FIELDS: usize = 64;
    let typed = opened.reading_options().descriptor(root.clone());
    let Ok(view) = opened.view_with(typed) else {
        return false;
    };
    let is_known = |field: Result<FieldEntry, Error>| {
        field.is_ok_and(|field| root.get_field(field.step.field.0).is_some())
    };
    view.check_type().is_ok()
        && view
            .fields(&FieldPath::root())
            .is_ok_and(|fields| fields.take(FIELDS).all(is_known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_saved_model_tells_its_type() {
        let folder = tempfile::tempdir().unwrap();
        let schema = SchemaArgs::default();
        let known = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            fs::write(&path, bytes).unwrap();
            let opening = Opening::new(&schema, Limits::new(), &OpenObjects::default());
            let input = opening.open(&path).unwrap();
            input.descriptor().map(|known| known.full_name().to_owned())
        };
        for name in ["saved_model.pb", "saved_model"] {
            let known = known(name, b"\x08\x01");
            assert_eq!(known.as_deref(), Some(proto_splitter::SAVED_MODEL));
        }
        assert_eq!(known("graph.pb", b""), None);
    }
}
