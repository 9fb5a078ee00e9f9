//! The names of enum values, as an Arrow dictionary.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{ArrayRef, StringArray};
use prost_reflect::EnumDescriptor;
use proto_splitter_core::{Error, ErrorKind, Result};

/// A dictionary with the names of an enum's values. A number without a name gets its digits as a
/// name when it is first looked up.
#[derive(Debug)]
pub(crate) struct EnumNames {
    /// Index, in the dictionary, of the name of each enum number from 0 to 255; negative for a
    /// number without a name.
    near: Vec<i32>,
    places: HashMap<i32, i32>,
    names: Vec<String>,
    /// Index, in the dictionary, of the name of the enum's default value, which is the first
    /// declared value.
    default: i32,
    /// True if protobuf parsers treat a number without a name as an unknown field.
    is_closed: bool,
    unnamed: Mutex<Unnamed>,
}

#[derive(Debug, Default)]
struct Unnamed {
    places: HashMap<i32, i32>,
    numbers: Vec<i32>,
    /// The dictionary as an Arrow array; `None` until it is requested, or after a number was added.
    array: Option<ArrayRef>,
}

/// Exclusive upper limit of the enum numbers that are looked up in an array instead of a map.
const NEAR: usize = 256;

/// Maximum number of enum numbers without names that are added to a dictionary, which is in memory.
const MOST_UNNAMED: usize = 1 << 16;

impl EnumNames {
    pub(crate) fn new(values: &EnumDescriptor, is_closed: bool) -> Self {
        let mut names = Vec::new();
        let mut places = HashMap::new();
        let mut near = vec![-1; NEAR];
        for value in values.values() {
            let place = i32::try_from(names.len()).unwrap_or(i32::MAX);
            // If several names have the same number, the first one is used.
            if places.contains_key(&value.number()) {
                continue;
            }
            places.insert(value.number(), place);
            names.push(value.name().to_owned());
            let front = usize::try_from(value.number()).ok();
            if let Some(near) = front.and_then(|at| near.get_mut(at)) {
                *near = place;
            }
        }
        EnumNames {
            near,
            default: places[&values.default_value().number()],
            places,
            names,
            is_closed,
            unnamed: Mutex::default(),
        }
    }

    /// Returns the index, in the dictionary, of the name of the enum's default value.
    pub(crate) fn default_place(&self) -> i32 {
        self.default
    }

    /// Returns true if protobuf parsers treat a number without a name as an unknown field.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Returns false if protobuf parsers treat a number of this enum as an unknown field.
    pub(crate) fn is_known(&self, number: i32) -> bool {
        !self.is_closed || self.places.contains_key(&number)
    }

    /// Returns the index, in the dictionary, of a number's name. Returns `None` if the number has
    /// no name, and protobuf parsers would treat it as an unknown field.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::LimitExceeded`] if more than [`MOST_UNNAMED`] numbers have no name.
    #[inline]
    pub(crate) fn place(&self, number: i32) -> Result<Option<i32>> {
        let near = usize::try_from(number)
            .ok()
            .and_then(|at| self.near.get(at));
        match near {
            Some(&place) if place >= 0 => Ok(Some(place)),
            _ => self.far(number),
        }
    }

    #[cold]
    fn far(&self, number: i32) -> Result<Option<i32>> {
        if let Some(place) = self.places.get(&number) {
            return Ok(Some(*place));
        }
        if self.is_closed {
            return Ok(None);
        }
        let mut unnamed = self.unnamed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = unnamed.places.get(&number) {
            return Ok(Some(*place));
        }
        if unnamed.numbers.len() >= MOST_UNNAMED {
            let message = format!("an enum has more than {MOST_UNNAMED} numbers without names");
            return Err(Error::new(ErrorKind::LimitExceeded, message));
        }
        let place = self.names.len() + unnamed.numbers.len();
        let place = i32::try_from(place).unwrap_or(i32::MAX);
        unnamed.numbers.push(number);
        unnamed.places.insert(number, place);
        unnamed.array = None;
        Ok(Some(place))
    }

    /// Returns the dictionary. Any dictionary that is returned later has the same entries at its
    /// start.
    pub(crate) fn dictionary(&self) -> ArrayRef {
        let mut unnamed = self.unnamed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(array) = &unnamed.array {
            return Arc::clone(array);
        }
        let numbers = unnamed.numbers.iter().map(i32::to_string);
        let names = self.names.iter().cloned().chain(numbers);
        let array: ArrayRef = Arc::new(names.map(Some).collect::<StringArray>());
        unnamed.array = Some(Arc::clone(&array));
        array
    }
}
