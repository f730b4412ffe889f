//! The first error of a compiler's log.

/// The first line of a log that says where it hurts, with that line of the source; `None` for an empty log.
///
/// Drivers write their logs in many ways. Those of OpenCL have `LINE:COLUMN: what` in them, NVRTC's `FILE(LINE): error: what`.
pub(super) fn complaint(log: &str, source: &str) -> Option<String> {
    let place = |line: &str| of_nvrtc(line).or_else(|| of_opencl(line));
    let Some((number, what)) = log.lines().find_map(place) else {
        let first = log.lines().map(str::trim).find(|line| !line.is_empty());
        return first.map(str::to_owned);
    };
    let line = number.checked_sub(1).and_then(|index| source.lines().nth(index));
    Some(match line {
        Some(code) => format!("{what}, in line {number} of its source: `{}`", code.trim()),
        None => what,
    })
}

fn of_opencl(line: &str) -> Option<(usize, String)> {
    let fields: Vec<_> = line.split(':').map(str::trim).collect();
    let number = |at: usize| fields.get(at)?.parse::<usize>().ok();
    let at = (0..fields.len()).find(|&at| number(at).is_some() && number(at + 1).is_some())?;
    let what = fields[at + 2..].join(": ");
    Some((number(at)?, what.trim_start_matches("error: ").to_owned()))
}

fn of_nvrtc(line: &str) -> Option<(usize, String)> {
    let (place, what) = line.split_once("): error")?;
    let number = place.rsplit_once('(')?.1.parse::<usize>().ok()?;
    let what = what.split_once(": ").map_or(what, |(_, what)| what);
    Some((number, what.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::complaint;

    const SOURCE: &str = "kernel void f(global float *a) {\n    a[0] = foo(1);\n}\n";

    fn complain(log: &str) -> Option<String> {
        complaint(log, SOURCE)
    }

    #[test]
    fn opencl_names_line_and_column() {
        for log in [
            "error: /tmp/tempfile_7V.cl:2:12: use of undeclared identifier 'foo'\nDevice x failed to build the program",
            "<kernel>:2:12: error: use of undeclared identifier 'foo'\n    a[0] = foo(1);",
        ] {
            let expected = "use of undeclared identifier 'foo', in line 2 of its source: `a[0] = foo(1);`";
            assert_eq!(complain(log).as_deref(), Some(expected));
        }
        assert_eq!(complain("<k>:99:1: bad").as_deref(), Some("bad"));
    }

    #[test]
    fn nvrtc_names_the_line() {
        let expected = "identifier \"foo\" is undefined, in line 2 of its source: `a[0] = foo(1);`";
        for log in [
            "f.cu(1): warning: unused\nf.cu(2): error: identifier \"foo\" is undefined\n      a[0] = foo(1);\n\n1 error detected",
            "f.cu(2): error #20: identifier \"foo\" is undefined",
        ] {
            assert_eq!(complain(log).as_deref(), Some(expected));
        }
        assert_eq!(complain("f.cu(99): error: bad").as_deref(), Some("bad"));
    }

    #[test]
    fn other_logs_give_their_first_line() {
        assert_eq!(
            complain("\n nvrtc: out of registers\nmore").as_deref(),
            Some("nvrtc: out of registers")
        );
        assert_eq!(complain("\n \n"), None);
    }
}
