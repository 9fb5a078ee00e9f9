//! The names of an enum's values, as a dictionary.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{ArrayRef, StringArray};
use prost_reflect::EnumDescriptor;
use proto_splitter_core::{Error, ErrorKind, Result};

/// The names of an enum's values, by index in a dictionary. A number without a name is added as
/// text when it first occurs.
#[derive(Debug)]
pub(crate) struct EnumNames {
    /// Indices of the names for 0 and the numbers after it; negative for numbers without a name.
    near: Vec<i32>,
    places: HashMap<i32, i32>,
    names: Vec<String>,
    /// True if readers treat a number without a name as an unknown field.
    is_closed: bool,
    unnamed: Mutex<Unnamed>,
}

#[derive(Debug, Default)]
struct Unnamed {
    places: HashMap<i32, i32>,
    numbers: Vec<i32>,
    /// The dictionary, until an unnamed number is added.
    array: Option<ArrayRef>,
}

/// Number of values that are looked up without a map.
const NEAR: usize = 256;

/// Maximum number of unnamed values, since their dictionary is held in memory.
const MOST_UNNAMED: usize = 1 << 16;

impl EnumNames {
    pub(crate) fn new(values: &EnumDescriptor, is_closed: bool) -> Self {
        let mut names = Vec::new();
        let mut places = HashMap::new();
        let mut near = vec![-1; NEAR];
        for value in values.values() {
            let place = i32::try_from(names.len()).unwrap_or(i32::MAX);
            // If a number has several names, the first one is used.
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
            places,
            names,
            is_closed,
            unnamed: Mutex::default(),
        }
    }

    /// Returns the index of a number's name in the dictionary; `None` if readers treat the number
    /// as unknown.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::LimitExceeded`] if there are too many numbers without names.
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

    /// Returns the dictionary. Later dictionaries start with the same entries.
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
