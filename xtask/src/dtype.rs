//! What a dtype costs: the files that name the newest one.

use crate::{Result, files};
use std::fs;
use std::path::Path;

/// The table of dtypes.
const TABLE: &str = "hal-api/src/dtype.rs";
/// The recipe, which has a row for each file.
const RECIPE: &str = "docs/adding-a-dtype.md";
/// Most files that may name a dtype.
const LIMIT: usize = 45;
/// What nobody writes by hand for a dtype.
const LEFT_OUT: [&str; 4] = ["fuzz/seeds", "hal-api/include", "nn/tests/data", "tests/data"];

/// Lists the files that name the newest dtype, prose apart; refuses more than [`LIMIT`], and a recipe that leaves one out or names one too
/// many.
pub(crate) fn run(root: &Path) -> Result<()> {
    let table = fs::read_to_string(root.join(TABLE))?;
    let spellings = newest(&table).ok_or_else(|| format!("{TABLE} has no row of a dtype"))?;
    let mut named = Vec::new();
    for file in files(root)? {
        let golden = file.components().any(|part| part.as_os_str() == "golden");
        let prose = file.extension().is_some_and(|kind| kind == "md");
        if golden || prose || LEFT_OUT.iter().any(|left_out| file.starts_with(left_out)) {
            continue;
        }
        // What is no text names nothing.
        let Ok(text) = fs::read_to_string(root.join(&file)) else {
            continue;
        };
        let text = plain(&text);
        if spellings.iter().any(|spelling| text.contains(spelling)) {
            named.push(file.display().to_string());
        }
    }
    let recipe = fs::read_to_string(root.join(RECIPE))?;
    let told: Vec<&str> = recipe.lines().filter_map(told).collect();
    for file in &named {
        println!("{file}");
    }
    println!("{} files name {}; {LIMIT} may", named.len(), spellings[0]);
    let mut wrong = Vec::new();
    if named.len() > LIMIT {
        wrong.push(format!("a dtype takes {} files, more than {LIMIT}", named.len()));
    }
    for file in named.iter().filter(|file| !told.contains(&file.as_str())) {
        wrong.push(format!("{RECIPE} has no row for {file}"));
    }
    for file in told
        .iter()
        .filter(|&&file| named.iter().all(|known| known != file))
    {
        wrong.push(format!("{RECIPE} has a row for {file}, which names no dtype"));
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(wrong.join("\n").into())
    }
}

/// The file of a row `| `file` | why |` of the recipe.
fn told(line: &str) -> Option<&str> {
    line.strip_prefix("| `")?.split_once("` |").map(|(file, _)| file)
}

/// Small letters and digits alone, so that `BF_16` and `bf16` are one spelling.
fn plain(text: &str) -> String {
    let kept = text.chars().filter(|&letter| letter != '_');
    kept.map(|letter| letter.to_ascii_lowercase()).collect()
}

/// How the dtype of the last row is spelled: its name, and its names in the formats that have one.
fn newest(table: &str) -> Option<Vec<String>> {
    let rows = &table[table.find("\ndtypes! {")?..];
    let rows = &rows[..rows.find("\n}\n")?];
    let last = &rows[rows.rfind("/// ")?..];
    let row = last.split_once('\n')?.1;
    // NumPy's names are too short to be found.
    let texts = row.split('"').skip(1).step_by(2);
    let texts = texts.filter(|text| !text.starts_with(['<', '|']));
    Some(texts.map(plain).collect())
}

#[cfg(test)]
mod tests {
    use super::{newest, plain, told};

    #[test]
    fn the_last_row_is_the_newest() {
        let table = "macro_rules! dtypes { }\ndtypes! { $\n    /// One.\n    F64 = 1, \"f64\", f64, Float { long: \"Float64\" };\n    \
                     /// Another.\n    X4 = 2, \"x4\", X4, Float {\n        long: \"Ex_Four\", numpy: Some(\"<x4\"), safetensors: \"EX4\"\n    };\n}\n";
        assert_eq!(newest(table).unwrap(), ["x4", "exfour", "ex4"]);
        assert_eq!(plain("CUDA_R_8F"), "cudar8f");
        assert_eq!(told("| `a/b.rs` | because |"), Some("a/b.rs"));
        assert_eq!(told("| file | why |"), None);
    }
}
