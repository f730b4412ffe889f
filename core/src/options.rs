//! Builders of options, and options by name.

pub mod by_name;
pub(crate) mod toml;

/// Methods of a builder that set one option each: `name: type,` sets the field of that name, through `Into`.
///
/// ```
/// #[derive(Default)]
/// pub struct Window {
///     size: usize,
///     step: Option<usize>,
/// }
/// thalweg::options! { Window {
///     /// Elements of a window.
///     size: usize,
///     /// Elements from one window to the next; the size unless said otherwise.
///     step: usize,
/// } }
/// let window = Window::default().size(3).step(2);
/// assert_eq!((window.size, window.step), (3, Some(2)));
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! options {
    ($type:ident $(<$life:lifetime>)? { $($(#[$doc:meta])* $name:ident: $kind:ty,)* }) => {
        impl $(<$life>)? $type $(<$life>)? {
            $($(#[$doc])*
            #[must_use]
            pub fn $name(mut self, $name: $kind) -> Self {
                self.$name = $name.into();
                self
            })*
        }
    };
}
