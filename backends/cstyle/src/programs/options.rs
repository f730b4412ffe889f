//! Options of a compilation.

use thalweg_hal::{Error, Result};

/// Whether programs are optimised, by the options that a kernel is compiled with; `backend` is its name in the error.
///
/// # Errors
/// `InvalidArgument` for an option that is not `optimise=on` or `optimise=off`.
pub fn optimises(backend: &str, options: &str) -> Result<bool> {
    let mut optimise = true;
    for option in options.lines().map(str::trim).filter(|line| !line.is_empty()) {
        optimise = match option {
            "optimise=on" => true,
            "optimise=off" => false,
            _ => {
                return Err(Error::invalid_argument(format!(
                    "the {backend} backend knows no compile option `{option}`; it takes optimise=on or off"
                )));
            }
        };
    }
    Ok(optimise)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::optimises;

    #[test]
    fn the_last_option_holds_and_others_are_named() {
        assert!(optimises("OpenCL", "").unwrap());
        assert!(!optimises("OpenCL", "optimise=off\n").unwrap());
        assert!(optimises("OpenCL", "optimise=off\noptimise=on").unwrap());
        let error = optimises("CUDA", "optimise=perhaps").unwrap_err();
        assert_eq!(
            error.message,
            "the CUDA backend knows no compile option `optimise=perhaps`; it takes optimise=on or off"
        );
    }
}
