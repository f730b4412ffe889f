//! Files, and disks that do not take them.

use super::{Line, apart, lines, one_of_each, text};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use thalweg::{Context, Tensor};

/// The files of the log in a folder by level, the oldest first; their names must have the exact form.
fn files(folder: &Path) -> BTreeMap<String, Vec<PathBuf>> {
    let mut found: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let (head, rest) = name.split_once(".ann.log.").unwrap();
        let [level, time, process] = rest.split('.').collect::<Vec<_>>()[..] else {
            panic!("{name}")
        };
        let form: String = time
            .chars()
            .map(|c| if c.is_ascii_digit() { '0' } else { c })
            .collect();
        assert!(head.starts_with("thalweg.") && head.len() > 8, "{name}");
        assert_eq!(form, "00000000-000000-000000", "{name}");
        process.parse::<u32>().unwrap();
        found.entry(level.to_owned()).or_default().push(path);
    }
    found.values_mut().for_each(|paths| paths.sort());
    found
}

#[test]
fn files_have_the_lines_of_their_level_and_above() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    let variables = [
        ("GLOG_logtostderr", "0"),
        ("GLOG_log_dir", dir),
        ("GLOG_v", "1"),
        ("RANK_ID", "3"),
    ];
    let Some(output) = apart("files::files_have_the_lines_of_their_level_and_above", &variables) else {
        assert!(thalweg::init().unwrap());
        return one_of_each();
    };
    assert_eq!(text(&output.stderr), "");
    let files = files(&folder.path().join("rank_3/logs"));
    let counts: Vec<_> = files
        .iter()
        .map(|(level, files)| {
            let [file] = &files[..] else { panic!("{files:?}") };
            (
                level.as_str(),
                lines(&std::fs::read_to_string(file).unwrap()).len(),
            )
        })
        .collect();
    assert_eq!(
        counts,
        [("CRITICAL", 1), ("ERROR", 3), ("INFO", 5), ("WARNING", 4)]
    );
}

#[test]
fn the_screen_goes_before_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    for to_screen in [&[][..], &[("GLOG_logtostderr", "1")]] {
        let variables = [&[("THALWEG_LOG_DIR", dir)], to_screen].concat();
        let Some(output) = apart("files::the_screen_goes_before_a_folder", &variables) else {
            assert!(thalweg::init().unwrap());
            return one_of_each();
        };
        assert_eq!(lines(&text(&output.stderr)).len(), 4);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    }
}

#[test]
fn files_are_followed_by_the_next_and_the_oldest_go() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    let variables = [
        ("THALWEG_LOG_TO_STDERR", "0"),
        ("THALWEG_LOG_DIR", dir),
        ("THALWEG_LOG_MAX_SIZE", "1 kB"),
        ("THALWEG_LOG_FILES", "3"),
        ("THALWEG_LOG_LEVEL", "2"),
    ];
    let Some(output) = apart(
        "files::files_are_followed_by_the_next_and_the_oldest_go",
        &variables,
    ) else {
        assert!(thalweg::init().unwrap());
        (0..100).for_each(|number| tracing::warn!("{number}"));
        tracing::error!("{}", "long ".repeat(400));
        return tracing::error!("last");
    };
    assert_eq!(text(&output.stderr), "");
    let files = files(&folder.path().join("rank_0/logs"));
    assert_eq!(files.keys().collect::<Vec<_>>(), ["ERROR", "WARNING"]);
    let of_level = |level: &str| -> Vec<Vec<Line>> {
        let read = |path: &PathBuf| lines(&std::fs::read_to_string(path).unwrap());
        files[level].iter().map(read).collect()
    };
    let warnings = of_level("WARNING");
    assert_eq!(warnings.len(), 3);
    // The long line has a file of its own, though it is longer than one may be.
    assert_eq!(warnings.iter().map(Vec::len).collect::<Vec<_>>()[1..], [1, 1]);
    let numbers: Vec<u32> = warnings[0]
        .iter()
        .map(|line| line.text.parse().unwrap())
        .collect();
    assert_eq!(numbers.last(), Some(&99));
    assert!(
        numbers.windows(2).all(|pair| pair[1] == pair[0] + 1),
        "{numbers:?}"
    );
    assert!(std::fs::metadata(&files["WARNING"][0]).unwrap().len() <= 1000);
    assert_eq!(of_level("ERROR").iter().map(Vec::len).collect::<Vec<_>>(), [1, 1]);
}

#[test]
fn threads_write_whole_lines() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    let variables = [
        ("THALWEG_LOG_TO_STDERR", "0"),
        ("THALWEG_LOG_DIR", dir),
        ("THALWEG_LOG_MAX_SIZE", "10 kB"),
    ];
    if apart("files::threads_write_whole_lines", &variables).is_none() {
        assert!(thalweg::init().unwrap());
        std::thread::scope(|scope| {
            for thread in 0..8 {
                scope.spawn(move || (0..200).for_each(|number| tracing::warn!("{thread} {number}")));
            }
        });
        return;
    }
    let mut texts: Vec<String> = Vec::new();
    for file in &files(&folder.path().join("rank_0/logs"))["WARNING"] {
        let read = std::fs::read_to_string(file).unwrap();
        assert!(read.len() <= 10_000);
        texts.extend(lines(&read).into_iter().map(|line| line.text));
    }
    let mut wanted: Vec<String> = (0..8)
        .flat_map(|thread| (0..200).map(move |number| format!("{thread} {number}")))
        .collect();
    texts.sort();
    wanted.sort();
    assert_eq!(texts, wanted);
}

/// The bits of some arithmetic.
fn bits() -> Vec<u32> {
    let cx = Context::new("cpu").unwrap();
    let x = Tensor::from_slice(&[0.1_f32, 0.7, 1.9], 3, &cx);
    let values = (x.exp() / 3.0).to_vec::<f32>().unwrap();
    values.into_iter().map(f32::to_bits).collect()
}

/// Whether the lines are one error of the log that names `path`, and then four others.
fn fell_back(said: &str, path: &str, why: &str) {
    let said = lines(said);
    let errors: Vec<_> = said.iter().filter(|line| line.module == "OBSERVE").collect();
    let [error] = errors[..] else { panic!("{said:?}") };
    assert_eq!(error.level, "ERROR");
    assert!(error.text.starts_with(&format!("logs: {path}")), "{error:?}");
    assert!(
        error.text.contains(why) && error.text.ends_with("; lines go to the screen from here on"),
        "{error:?}"
    );
    assert_eq!(
        said.iter().filter(|line| line.module == "PROGRAM").count(),
        4,
        "{said:?}"
    );
}

#[test]
fn a_folder_that_cannot_be_written_costs_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "mine").unwrap();
    for dir in [file.to_str().unwrap(), "/proc/nothing"] {
        let variables = [("GLOG_logtostderr", "0"), ("GLOG_log_dir", dir)];
        let Some(output) = apart(
            "files::a_folder_that_cannot_be_written_costs_one_line",
            &variables,
        ) else {
            let before = bits();
            assert!(thalweg::init().unwrap());
            one_of_each();
            return assert_eq!(bits(), before);
        };
        fell_back(&text(&output.stderr), dir, "(os error ");
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
}

#[test]
fn a_folder_that_goes_later_costs_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("logs").to_str().unwrap().to_owned();
    let variables = [
        ("GLOG_logtostderr", "0"),
        ("GLOG_log_dir", dir.as_str()),
        ("THALWEG_LOG_MAX_SIZE", "1"),
    ];
    let Some(output) = apart("files::a_folder_that_goes_later_costs_one_line", &variables) else {
        assert!(thalweg::init().unwrap());
        let before = bits();
        tracing::warn!("into a file");
        let dir = std::env::var("GLOG_log_dir").unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
        std::fs::write(dir, "another's").unwrap();
        one_of_each();
        return assert_eq!(bits(), before);
    };
    fell_back(&text(&output.stderr), &dir, "Not a directory");
}

#[test]
fn a_full_disk_costs_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    let variables = [("GLOG_logtostderr", "0"), ("GLOG_log_dir", dir)];
    let Some(output) = apart("files::a_full_disk_costs_one_line", &variables) else {
        let before = bits();
        assert!(thalweg::init().unwrap());
        (0..8).for_each(|number| tracing::warn!("{number}"));
        // The system refuses to make files longer than this, as a full disk does.
        let limit = libc::rlimit {
            rlim_cur: 1200,
            rlim_max: 1200,
        };
        // SAFETY: the signal is ignored, and the limit lives through the call.
        unsafe {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit);
        }
        (8..32).for_each(|number| tracing::warn!("{number}"));
        return assert_eq!(bits(), before);
    };
    let screen = lines(&text(&output.stderr));
    assert!(screen[0].text.contains("File too large"), "{screen:?}");
    assert!(screen[1..].iter().all(|line| line.module == "PROGRAM"));
    // No line is lost, but that which the disk took in part is on the screen as a whole.
    let numbers: Vec<u32> = screen[1..]
        .iter()
        .map(|line| line.text.parse().unwrap())
        .collect();
    let file = std::fs::read_to_string(&files(&folder.path().join("rank_0/logs"))["WARNING"][0]).unwrap();
    let whole = file.lines().count() - usize::from(!file.ends_with('\n'));
    assert_eq!(numbers, (whole as u32..32).collect::<Vec<_>>());
}
