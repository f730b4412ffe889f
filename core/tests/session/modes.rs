//! Forms of ops, and files about kernels.

use super::{apart, apart_with, numbers};
use thalweg::context::{DebugLevel, ImplMode};
use thalweg::{Context, Error, Runtime, SessionOptions};

#[test]
fn contexts_have_the_forms_of_the_session_unless_they_say_another() {
    if !apart("modes::contexts_have_the_forms_of_the_session_unless_they_say_another") {
        return;
    }
    let options = SessionOptions::default().op_select_implmode(ImplMode::HighPerformance);
    Runtime::init(options.optypelist_for_implmode(vec!["div".to_owned()])).unwrap();
    let built = Context::builder().device_target("cpu");
    assert!(Context::new("cpu").unwrap().fast_math());
    assert!(built.clone().build().unwrap().fast_math());
    let other = built.op_select_implmode(ImplMode::HighPrecision).build().unwrap();
    assert!(!other.fast_math());
}

#[test]
fn a_level_is_chosen_once_and_its_folder_must_be_there() {
    let folder = tempfile::tempdir().unwrap();
    let test = "modes::a_level_is_chosen_once_and_its_folder_must_be_there";
    if !apart_with(test, &[], folder.path()) {
        return;
    }
    std::fs::write("kernel_meta", "a file").unwrap();
    let built = Context::builder().device_target("cpu");
    let error = built
        .clone()
        .op_debug_level(DebugLevel::Sources)
        .build()
        .unwrap_err();
    assert!(matches!(&error, Error::KernelMeta(_)), "{error:?}");
    assert!(
        error.to_string().starts_with("op_debug_level: kernel_meta: "),
        "{error}"
    );
    std::fs::remove_file("kernel_meta").unwrap();
    let cx = built
        .clone()
        .op_debug_level(DebugLevel::Everything)
        .build()
        .unwrap();
    assert!(!cx.checks_indices());
    let error = built.op_debug_level(DebugLevel::Checked).build().unwrap_err();
    assert_eq!(
        error.to_string(),
        "op_debug_level is 2, but the process has 4; set it once, before the first context"
    );
    numbers(&cx).exp().to_vec::<f32>().unwrap();
    assert!(std::fs::read_dir("kernel_meta").unwrap().count() >= 2);
    // A file that cannot be written is no error of the program.
    std::fs::remove_dir_all("kernel_meta").unwrap();
    std::fs::write("kernel_meta", "a file").unwrap();
    assert_eq!(numbers(&cx).sin().to_vec::<f32>().unwrap().len(), 3);
}
