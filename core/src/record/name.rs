//! Names of types and functions, for people.

/// What stands for a function whose type says nothing: a pointer, a boxed closure.
const NAMELESS: &str = "function";

/// Without the arguments of generics at its end: `Sequential<T>` as `Sequential`.
fn without_arguments(name: &str) -> &str {
    if !name.ends_with('>') {
        return name;
    }
    let mut depth = 0_usize;
    for (at, letter) in name.char_indices().rev() {
        match letter {
            '>' => depth += 1,
            '<' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return name[..at].trim_end_matches("::");
        }
    }
    name
}

fn is_identifier(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|letter| letter == '_' || letter.is_alphanumeric())
}

/// `networks::step` of the type's name `benches::networks::step<Sequential>::{{closure}}`: the function that a closure is written in,
/// and its module.
pub(crate) fn of_function(type_name: &'static str) -> &'static str {
    let mut name = type_name;
    loop {
        let outer = without_arguments(name.strip_suffix("::{{closure}}").unwrap_or(name));
        if outer.len() == name.len() {
            break;
        }
        name = outer;
    }
    let (path, function) = name.rsplit_once("::").unwrap_or(("", name));
    // Functions are written in small letters. What is not is the type of a box around them.
    if !is_identifier(function) || function.starts_with(char::is_uppercase) {
        return NAMELESS;
    }
    let module = path.rsplit("::").next().unwrap_or_default();
    match is_identifier(module) {
        true => &name[name.len() - function.len() - "::".len() - module.len()..],
        false => function,
    }
}

/// `Conv2d` of the type's name `nn::layers::conv::Conv2d<T>`; `None` for types of the standard library, which hold parts and are none.
pub(crate) fn of_part(type_name: &str) -> Option<&str> {
    let name = without_arguments(type_name);
    let (path, class) = name.rsplit_once("::")?;
    let of_library = ["core", "alloc", "std"].contains(&path.split("::").next()?);
    (!of_library && is_identifier(class)).then_some(class)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::any::type_name_of_val;

    fn step<T>(value: T) -> impl Fn() -> T
    where
        T: Clone,
    {
        move || value.clone()
    }

    struct Network;

    impl Network {
        fn forward() -> impl Fn() -> u8 {
            || 1
        }
    }

    #[test]
    fn functions_are_called_as_they_are_written() {
        assert_eq!(
            of_function(type_name_of_val(&step(vec![Some(1_u8)]))),
            "tests::step"
        );
        assert_eq!(of_function(type_name_of_val(&step::<u8>)), "tests::step");
        assert_eq!(
            of_function(type_name_of_val(&Network::forward())),
            "Network::forward"
        );
    }

    #[test]
    fn paths_are_cut_where_generics_stand() {
        for (given, wanted) in [
            (
                "thalweg_benches::networks::step<thalweg_nn::layers::sequential::Sequential>::{{closure}}",
                "networks::step",
            ),
            ("a::Net<T>::forward::{{closure}}::{{closure}}", "forward"),
            ("<a::Net as b::Module>::forward::{{closure}}", "forward"),
            ("main", "main"),
            ("fn(&thalweg::Tensor) -> thalweg::Tensor", NAMELESS),
            ("fn(&thalweg::Tensor) -> alloc::vec::Vec<u8>", NAMELESS),
            (
                "alloc::boxed::Box<dyn core::ops::function::Fn(&u8) -> u8>",
                NAMELESS,
            ),
            ("{{closure}}", NAMELESS),
            ("", NAMELESS),
        ] {
            assert_eq!(of_function(given), wanted, "{given}");
        }
    }

    #[test]
    fn parts_have_the_names_of_their_types() {
        assert_eq!(of_part(std::any::type_name::<Network>()), Some("Network"));
        assert_eq!(of_part("net::layers::Pair<net::Conv2d, net::Relu>"), Some("Pair"));
        for holder in [
            "alloc::vec::Vec<net::Relu>",
            "core::option::Option<net::Relu>",
            "[net::Relu; 2]",
            "u8",
        ] {
            assert_eq!(of_part(holder), None, "{holder}");
        }
    }
}
