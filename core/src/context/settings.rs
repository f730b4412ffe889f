//! What a context may be told by files and the environment: the rows of `docs/settings.md`.

use thalweg_hal::settings::{Setting, Values, Way};

pub(super) const DEVICE_TARGET: Setting = Setting {
    key: "device_target",
    variable: "THALWEG_DEVICE_TARGET",
    way: Way::Option,
    values: Values::Range("a target such as `cpu`, `cuda:1`, the name of a plugin, or `auto`"),
    default: "auto",
    about: "The device. One that is missing is an error; only `auto` chooses.",
    read_by: "`ContextBuilder`",
};

pub(super) const DEVICE_ID: Setting = Setting {
    key: "device_id",
    variable: "THALWEG_DEVICE_ID",
    way: Way::Option,
    values: Values::Range("a whole number from 0"),
    default: "0",
    about: "The number of the device, where the target has none.",
    read_by: "`ContextBuilder`",
};

pub(super) const MODE: Setting = Setting {
    key: "mode",
    variable: "THALWEG_MODE",
    way: Way::Option,
    values: Values::OneOf(&["eager", "graph"]),
    default: "eager",
    about: "When ops run: at once, or recorded and compiled together when a value is read.",
    read_by: "`ContextBuilder`",
};

pub(super) const MEMORY_LIMIT: Setting = Setting {
    key: "memory_limit",
    variable: "THALWEG_MEMORY_LIMIT",
    way: Way::Option,
    values: Values::Range("bytes, or a size such as `8 GiB`; 0 for no limit"),
    default: "0",
    about: "Most memory that the pool of the device reserves, for all contexts.",
    read_by: "`ContextBuilder`",
};

pub(super) const SEED: Setting = Setting {
    key: "seed",
    variable: "THALWEG_SEED",
    way: Way::Option,
    values: Values::Range("a whole number from 0"),
    default: "0",
    about: "Seed of random numbers.",
    read_by: "`ContextBuilder`",
};

pub(super) const DETERMINISTIC: Setting = Setting {
    key: "deterministic",
    variable: "THALWEG_DETERMINISTIC",
    way: Way::Option,
    values: Values::OneOf(&["true", "false"]),
    default: "true",
    about: "Whether two runs of a program compute the same bits. With `false`, random numbers start from the entropy of the system where no seed is set.",
    read_by: "`ContextBuilder`",
};

pub(super) const STREAMS: Setting = Setting {
    key: "streams",
    variable: "THALWEG_STREAMS",
    way: Way::Option,
    values: Values::Range("a whole number from 0 to 64"),
    default: "0",
    about: "How many streams `Context::streams` holds for stream scopes of the program.",
    read_by: "`ContextBuilder`",
};

pub(crate) const PRECISION_MODE: Setting = Setting {
    key: "precision_mode",
    variable: "THALWEG_PRECISION_MODE",
    way: Way::Option,
    values: Values::OneOf(&[
        "must_keep_origin_dtype",
        "force_fp32",
        "force_fp16",
        "allow_fp32_to_fp16",
        "allow_fp32_to_bf16",
        "allow_mix_precision",
        "allow_mix_precision_fp16",
        "allow_mix_precision_bf16",
    ]),
    default: "must_keep_origin_dtype",
    about: "In which dtypes ops compute.",
    read_by: "`ContextBuilder`",
};

pub(super) const FAST_MATH: Setting = Setting {
    key: "fast_math",
    variable: "THALWEG_FAST_MATH",
    way: Way::Option,
    values: Values::OneOf(&["true", "false"]),
    default: "false",
    about: "Whether the compiler of graphs may change bits. Eager ops stay exact.",
    read_by: "`ContextBuilder`",
};

pub(super) const CHECK_NUMERICS: Setting = Setting {
    key: "check_numerics",
    variable: "THALWEG_CHECK_NUMERICS",
    way: Way::Option,
    values: Values::OneOf(&["true", "false"]),
    default: "false",
    about: "Whether an op that makes a NaN or an infinity out of finite numbers is an error, with op, line and element.",
    read_by: "`ContextBuilder`",
};

pub(super) const RESERVE_CLASS_NAME_IN_SCOPE: Setting = Setting {
    key: "reserve_class_name_in_scope",
    variable: "THALWEG_RESERVE_CLASS_NAME_IN_SCOPE",
    way: Way::Option,
    values: Values::OneOf(&["true", "false"]),
    default: "false",
    about: "Whether names of ops have the types of the parts of the network: `Default/conv1-Conv2d/conv2d-op1`. It is the process's.",
    read_by: "`ContextBuilder`",
};

pub(super) const PRINT_FILE_PATH: Setting = Setting {
    key: "print_file_path",
    variable: "THALWEG_PRINT_FILE_PATH",
    way: Way::Option,
    values: Values::Range("a file, or nothing for the screen; `{r}` is the rank"),
    default: "the screen",
    about: "Where `observe::print` prints. A file that exists stays as it is, and the new one has the time behind its name. It is the process's.",
    read_by: "`ContextBuilder`",
};

pub(super) const CHECK_INDICES: Setting = Setting {
    key: "check_indices",
    variable: "THALWEG_CHECK_INDICES",
    way: Way::Option,
    values: Values::OneOf(&["true", "false"]),
    default: "false",
    about: "Whether an index that its axis does not have is an error, with op, line, index and axis.",
    read_by: "`ContextBuilder`",
};

pub(crate) const ENABLE_EXCEPTION_DUMP: Setting = Setting {
    key: "enable_exception_dump",
    variable: "THALWEG_ENABLE_EXCEPTION_DUMP",
    way: Way::Option,
    values: Values::OneOf(&["true", "false"]),
    default: "false",
    about: "Whether the inputs of a call that fails on the device are written to files in the working directory. Each call then waits for the device.",
    read_by: "`ContextBuilder`",
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::graphs::{SAVE_GRAPHS, SAVE_GRAPHS_PATH};
    use crate::context::recorder::ENV_CONFIG_PATH;
    use crate::context::{ContextBuilder, OP_SELECT_IMPLMODE, OPTYPELIST_FOR_IMPLMODE, Precision};
    use crate::engine::debug::OP_DEBUG_LEVEL;
    use crate::loader::LAYERS;
    use crate::parallel::THREADS;

    /// Every option of a file is a row, and no row is anything else.
    #[test]
    fn rows_are_the_options() {
        let mut rows = [
            DEVICE_TARGET,
            DEVICE_ID,
            MODE,
            MEMORY_LIMIT,
            SEED,
            DETERMINISTIC,
            STREAMS,
            THREADS,
            PRECISION_MODE,
            FAST_MATH,
            CHECK_NUMERICS,
            RESERVE_CLASS_NAME_IN_SCOPE,
            CHECK_INDICES,
            ENABLE_EXCEPTION_DUMP,
            OP_DEBUG_LEVEL,
            OP_SELECT_IMPLMODE,
            OPTYPELIST_FOR_IMPLMODE,
            PRINT_FILE_PATH,
            SAVE_GRAPHS,
            SAVE_GRAPHS_PATH,
            ENV_CONFIG_PATH,
            LAYERS,
        ]
        .map(|row| row.key);
        rows.sort_unstable();
        let error = ContextBuilder::from_toml("nothing = 1").unwrap_err().to_string();
        let (_, all) = error.lines().next().unwrap().split_once("there are ").unwrap();
        let mut options: Vec<_> = all.split(", ").collect();
        options.sort_unstable();
        assert_eq!(options, rows);
    }

    #[test]
    fn precision_has_the_modes() {
        let names: Vec<_> = Precision::ALL.iter().map(|mode| mode.name()).collect();
        assert_eq!(PRECISION_MODE.values, Values::OneOf(&names.leak()[..]));
    }
}
