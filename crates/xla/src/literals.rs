//! The constants in a module. Each is a literal, and is named after its instruction.

use std::collections::HashMap;
use std::ops::Range;
use std::slice::from_ref;
use std::sync::{Arc, OnceLock};

use proto_splitter_core::spans::copy_range;
use proto_splitter_core::tensor::{
    DType, ElementForm, Location, NameBudget, TensorInfo, TensorReader, write_elements,
};
use proto_splitter_core::wire::{Field, SourceInput, WireCursor, WireType, decode_varint};
use proto_splitter_core::{Error, ErrorKind, Result};
use record_file::ReadAt;

/// Maximum nesting depth of tuples in a literal.
const MAX_DEPTH: usize = 32;

/// Maximum size of a name or a shape, in bytes.
const MAX_SMALL: u64 = 1 << 20;

/// The encoding of the elements in a literal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// The elements have the same bytes as in memory, in a bytes field or a packed field.
    Raw,
    /// The elements are packed varints. Only the given number of low bytes of each varint is used.
    Varints(usize),
    /// Several elements share a byte, in an unknown order.
    Packed,
}

/// The element types: the number of each type in XLA's schema, the type itself, the number of the
/// field that contains the elements, and their encoding.
const TYPES: &[(u64, DType, u32, Form)] = &[
    (1, DType::Bool, 2, Form::Varints(1)),
    (2, DType::I8, 15, Form::Raw),
    (3, DType::I16, 17, Form::Raw),
    (4, DType::I32, 4, Form::Varints(4)),
    (5, DType::I64, 5, Form::Varints(8)),
    (6, DType::U8, 3, Form::Raw),
    (7, DType::U16, 16, Form::Raw),
    (8, DType::U32, 6, Form::Varints(4)),
    (9, DType::U64, 7, Form::Varints(8)),
    (10, DType::F16, 11, Form::Raw),
    (11, DType::F32, 8, Form::Raw),
    (12, DType::F64, 9, Form::Raw),
    (15, DType::C64, 12, Form::Raw),
    (16, DType::BF16, 13, Form::Raw),
    (18, DType::C128, 18, Form::Raw),
    (19, DType::F8E5M2, 19, Form::Raw),
    (20, DType::F8E4M3, 20, Form::Raw),
    (21, DType::I4, 21, Form::Packed),
    (22, DType::U4, 22, Form::Packed),
    (23, DType::F8E4M3B11Fnuz, 23, Form::Raw),
    (24, DType::F8E5M2Fnuz, 24, Form::Raw),
    (25, DType::F8E4M3Fnuz, 25, Form::Raw),
    (26, DType::I2, 26, Form::Packed),
    (27, DType::U2, 27, Form::Packed),
    (32, DType::F4E2M1, 32, Form::Packed),
    (33, DType::F8E8M0, 33, Form::Raw),
];

/// Number of the tuple type in XLA's schema.
const TUPLE: u64 = 13;

/// A constant, and the location of its elements in the message.
#[derive(Debug)]
struct Literal {
    info: TensorInfo,
    form: Form,
    /// True if the elements are stored in C order, in which elements along the last dimension are
    /// contiguous.
    in_order: bool,
    /// Number of the field that contains the elements.
    field: u32,
    /// For varints, the ranges of the literal's own message; otherwise, those of the elements.
    pieces: Vec<Range<u64>>,
}

/// All constants, in module order.
#[derive(Debug)]
struct Found {
    literals: Vec<Literal>,
    /// The indices of the constants, sorted by name. An element of a tuple may have the name of
    /// another constant.
    by_name: Vec<usize>,
}

impl Found {
    fn new(literals: Vec<Literal>) -> Found {
        let mut by_name: Vec<usize> = (0..literals.len()).collect();
        by_name.sort_by_key(|&at| literals[at].info.name.as_str());
        Found { literals, by_name }
    }

    fn of(&self, info: &TensorInfo) -> Option<&Literal> {
        let infos = |&at: &usize| &self.literals[at].info;
        let from = self
            .by_name
            .partition_point(|at| infos(at).name < info.name);
        let mut alike = self.by_name[from..]
            .iter()
            .take_while(|at| infos(at).name == info.name);
        let at = alike.find(|at| infos(at) == info)?;
        self.literals.get(*at)
    }
}

/// The constants in the module that a message contains.
#[derive(Debug)]
pub(crate) struct Literals {
    message: Arc<dyn ReadAt>,
    /// Field numbers that lead from the message to the module.
    module: &'static [u32],
    found: OnceLock<Found>,
}

impl Literals {
    /// Creates a list of the constants in a message's module. The list is filled on first use.
    /// `module` has the field numbers that lead to the module.
    pub(crate) fn new(message: Arc<dyn ReadAt>, module: &'static [u32]) -> Literals {
        Literals {
            message,
            module,
            found: OnceLock::new(),
        }
    }

    /// Returns the descriptions of the constants, in module order.
    pub(crate) fn infos(&self) -> Result<Vec<TensorInfo>> {
        Ok(self
            .found()?
            .literals
            .iter()
            .map(|literal| literal.info.clone())
            .collect())
    }

    /// Returns a reader for the elements of the constant that `info` describes.
    pub(crate) fn read(&self, info: &TensorInfo) -> Result<TensorReader<'_>> {
        let Some(literal) = self.found()?.of(info) else {
            let message = format!("there is no constant {:?}", info.name);
            return Err(Error::new(ErrorKind::InvalidPath, message));
        };
        let refused = |why: &str| {
            let message = format!("constant {:?}: {why}", info.name);
            Err(Error::new(ErrorKind::InvalidPath, message))
        };
        if literal.form == Form::Packed {
            return refused("elements of less than a byte are not read");
        }
        if !literal.in_order {
            return refused("its layout stores the elements in another order");
        }
        let (info, message) = (literal.info.clone(), Arc::clone(&self.message));
        if let (Form::Raw, [range]) = (literal.form, literal.pieces.as_slice()) {
            return Ok(TensorReader::of_range(info, message, range.clone()));
        }
        let (form, pieces) = (literal.form, literal.pieces.clone());
        let field = literal.field;
        Ok(TensorReader::new(info, move |sink| {
            let Form::Varints(width) = form else {
                let mut pieces = pieces.into_iter();
                return pieces.try_for_each(|piece| copy_range(&*message, piece, sink));
            };
            let mut cursor = WireCursor::new(SourceInput::new(&*message, message.size()?));
            let form = ElementForm::new(field, WireType::Varint, width);
            write_elements(&mut cursor, &pieces, form, sink).map(drop)
        }))
    }

    fn found(&self) -> Result<&Found> {
        if let Some(found) = self.found.get() {
            return Ok(found);
        }
        let size = self.message.size()?;
        let mut walk = Walk {
            cursor: WireCursor::new(SourceInput::new(&*self.message, size)),
            found: Vec::new(),
            names: HashMap::new(),
            budget: NameBudget::default(),
        };
        let mut modules: Vec<_> = std::iter::once(0..size).collect();
        for &number in self.module {
            modules = walk.cursor.values(&modules, number)?;
        }
        for computation in walk.cursor.values(&modules, 3)? {
            let mut called = None;
            for instruction in walk.cursor.values(from_ref(&computation), 2)? {
                walk.instruction(&computation, &mut called, instruction)?;
            }
        }
        let found = walk.found;
        Ok(self.found.get_or_init(|| Found::new(found)))
    }
}

/// A search for the constants in a message.
struct Walk<'a> {
    cursor: WireCursor<SourceInput<'a, dyn ReadAt>>,
    found: Vec<Literal>,
    /// Names that are in use. Each has the highest number that was added to it, or 1.
    names: HashMap<String, u64>,
    budget: NameBudget,
}

impl Walk<'_> {
    /// Calls `each` with every field in the range of a message.
    fn each(
        &mut self,
        range: Range<u64>,
        mut each: impl FnMut(&mut Self, &Field) -> Result<()>,
    ) -> Result<()> {
        self.cursor.set_range(range.clone());
        while let Some(field) = self.cursor.next()? {
            let next = field.end;
            each(self, &field)?;
            self.cursor.set_range(next..range.end);
        }
        Ok(())
    }

    /// Reads a name or a shape, whose size is limited.
    fn small(&mut self, range: Range<u64>) -> Result<Vec<u8>> {
        if range.end - range.start > MAX_SMALL {
            let message = format!(
                "a name or shape of {} bytes is too large",
                range.end - range.start
            );
            return Err(Error::new(ErrorKind::LimitExceeded, message).at_offset(range.start));
        }
        Ok(self.cursor.bytes(range)?.to_vec())
    }

    /// Returns the value of a string field in the range of a message. If the field occurs several
    /// times, returns the last value; if it is absent, returns an empty string.
    fn text(&mut self, range: Range<u64>, number: u32) -> Result<String> {
        match self.cursor.values(&[range], number)?.pop() {
            Some(value) => Ok(String::from_utf8_lossy(&self.small(value)?).into_owned()),
            None => Ok(String::new()),
        }
    }

    /// Adds the constants of an instruction. `called` caches the name of the instruction's
    /// computation.
    fn instruction(
        &mut self,
        computation: &Range<u64>,
        called: &mut Option<String>,
        range: Range<u64>,
    ) -> Result<()> {
        let literals = self.cursor.values(from_ref(&range), 8)?;
        if literals.is_empty() {
            return Ok(());
        }
        let mut name = self.text(range, 1)?;
        if self.names.contains_key(&name) {
            // In a valid module, names are unique. Otherwise, adds the computation's name and a
            // number.
            let called = match called {
                Some(called) => called,
                None => called.insert(self.text(computation.clone(), 1)?),
            };
            name = self.unused(format!("{called}/{name}"));
        }
        self.budget.spend(name.len() as u64)?;
        self.names.insert(name.clone(), 1);
        self.literal(&name, &literals, 0)
    }

    /// Returns `first` if it isn't in use, or else `first` with the lowest number from 2 that makes
    /// it unique.
    fn unused(&mut self, first: String) -> String {
        let Some(&(mut count)) = self.names.get(&first) else {
            return first;
        };
        loop {
            count += 1;
            let name = format!("{first}#{count}");
            if !self.names.contains_key(&name) {
                self.names.insert(first, count);
                return name;
            }
        }
    }

    /// Adds the constant in a literal. If the literal's field occurs several times, `pieces` has
    /// the range of each occurrence, since protobuf merges them.
    fn literal(&mut self, name: &str, pieces: &[Range<u64>], depth: usize) -> Result<()> {
        if depth > MAX_DEPTH {
            let message = format!("constant {name:?}: tuples nest deeper than {MAX_DEPTH}");
            return Err(Error::new(ErrorKind::LimitExceeded, message));
        }
        let (mut number, mut shape, mut order) = (0, Vec::new(), Vec::new());
        for range in self.cursor.values(pieces, 1)? {
            self.each(range, |walk, field| {
                match field.number.0 {
                    2 => number = walk.varints(field)?.pop().unwrap_or(0),
                    3 => shape.append(&mut walk.varints(field)?),
                    5 => {
                        walk.each(field.value.clone(), |walk, field| {
                            if field.number.0 == 1 {
                                order.append(&mut walk.varints(field)?);
                            }
                            Ok(())
                        })?;
                    }
                    _ => {}
                }
                Ok(())
            })?;
        }
        if number == TUPLE {
            for (index, element) in self.cursor.values(pieces, 10)?.into_iter().enumerate() {
                self.literal(&format!("{name}/{index}"), &[element], depth + 1)?;
            }
            return Ok(());
        }
        let Some(&(_, dtype, field, form)) = TYPES.iter().find(|(known, ..)| *known == number)
        else {
            return Ok(());
        };
        let mut values = self.cursor.values(pieces, field)?;
        // For a bytes field, the last occurrence takes effect. For a packed field, the occurrences
        // are concatenated.
        let is_list = matches!(field, 2 | 4..=9 | 12 | 18);
        if !is_list && values.len() > 1 {
            values.drain(..values.len() - 1);
        }
        let in_order = order.iter().rev().copied().eq(0..order.len() as u64)
            || shape.iter().filter(|size| **size != 1).count() < 2;
        let offset = values.first().map_or(0, |value| value.start);
        self.budget.spend(name.len() as u64)?;
        let info = TensorInfo::new(name, dtype, shape);
        self.found.push(Literal {
            info: info.located(Location::entry(name, offset)),
            form,
            in_order,
            field,
            pieces: match form {
                Form::Varints(_) => pieces.to_vec(),
                _ => values,
            },
        });
        Ok(())
    }

    /// Reads the numbers in an occurrence of a repeated field, which may be packed.
    fn varints(&mut self, field: &Field) -> Result<Vec<u64>> {
        let bytes = self.small(field.value.clone())?;
        let (mut numbers, mut rest) = (Vec::new(), bytes.as_slice());
        while let Some((number, len)) = decode_varint(rest) {
            numbers.push(number);
            rest = rest.get(len..).unwrap_or_default();
        }
        Ok(numbers)
    }
}
