//! The setters and getters of option structs.

/// Defines setters and getters of options, in the `impl` of a struct with a field for each option.
///
/// Each option has a line with the names of its setter, which is the field's name, and its getter,
/// and with its type. The line begins with the way in which the value is passed:
///
/// - `const`: a copy, which a constant can set too;
/// - `into`: a copy, converted from any type that implements [`Into`];
/// - `ref`: moved by the setter, and borrowed by the getter;
/// - `optional`: like `ref`, for a field of type `Option`, set to a value or to an `Option`. The line
///   contains the type of the value.
///
/// ```
/// #[derive(Default)]
/// struct CopyOptions {
///     force: bool,
///     threads: Option<u32>,
///     comment: String,
///     owner: Option<String>,
/// }
///
/// impl CopyOptions {
///     record_file::options! {
///         /// Sets whether to replace an existing file. Default: false.
///         const force, get_force: bool;
///         /// Sets the number of threads. Default: the number of cores.
///         into threads, get_threads: Option<u32>;
///         /// Sets a comment. Default: none.
///         ref comment, get_comment: String;
///         /// Sets the owner of the copy. Default: the user.
///         optional owner, get_owner: String;
///     }
/// }
///
/// let options = CopyOptions::default().force(true).threads(4).comment("a copy".to_owned());
/// assert_eq!((options.get_force(), options.get_threads()), (true, Some(4)));
/// assert_eq!((options.get_comment().as_str(), options.get_owner()), ("a copy", None));
/// assert_eq!(options.owner("root".to_owned()).get_owner().unwrap(), "root");
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! options {
    () => {};
    ($(#[$doc:meta])* const $set:ident, $get:ident: $type:ty; $($rest:tt)*) => {
        $(#[$doc])*
        #[must_use]
        pub const fn $set(mut self, $set: $type) -> Self {
            self.$set = $set;
            self
        }

        #[doc = concat!("Returns the value of the [`", stringify!($set), "`](Self::", stringify!($set), ") option.")]
        pub const fn $get(&self) -> $type {
            self.$set
        }

        $crate::options! { $($rest)* }
    };
    ($(#[$doc:meta])* into $set:ident, $get:ident: $type:ty; $($rest:tt)*) => {
        $(#[$doc])*
        #[must_use]
        pub fn $set(mut self, $set: impl Into<$type>) -> Self {
            self.$set = $set.into();
            self
        }

        #[doc = concat!("Returns the value of the [`", stringify!($set), "`](Self::", stringify!($set), ") option.")]
        pub const fn $get(&self) -> $type {
            self.$set
        }

        $crate::options! { $($rest)* }
    };
    ($(#[$doc:meta])* ref $set:ident, $get:ident: $type:ty; $($rest:tt)*) => {
        $(#[$doc])*
        #[must_use]
        pub fn $set(mut self, $set: $type) -> Self {
            self.$set = $set;
            self
        }

        #[doc = concat!("Returns the value of the [`", stringify!($set), "`](Self::", stringify!($set), ") option.")]
        pub const fn $get(&self) -> &$type {
            &self.$set
        }

        $crate::options! { $($rest)* }
    };
    ($(#[$doc:meta])* optional $set:ident, $get:ident: $type:ty; $($rest:tt)*) => {
        $(#[$doc])*
        #[must_use]
        pub fn $set(mut self, $set: impl Into<Option<$type>>) -> Self {
            self.$set = $set.into();
            self
        }

        #[doc = concat!("Returns the value of the [`", stringify!($set), "`](Self::", stringify!($set), ") option.")]
        pub const fn $get(&self) -> Option<&$type> {
            self.$set.as_ref()
        }

        $crate::options! { $($rest)* }
    };
}
