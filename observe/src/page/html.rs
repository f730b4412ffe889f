//! The page itself: one file, put together from those in `web/`.

use sha2::{Digest, Sha256};

const SHELL: &str = include_str!("web/page.html");
const STYLE: &str = concat!(
    include_str!("web/style.css"),
    include_str!("web/panels.css"),
    include_str!("web/summaries.css"),
    include_str!("web/graph.css")
);
/// One program: each file adds to what the ones before it made.
const SCRIPT: &str = concat!(
    "\"use strict\";\n",
    include_str!("web/data.js"),
    include_str!("web/format.js"),
    include_str!("web/dom.js"),
    include_str!("web/chart.js"),
    include_str!("web/table.js"),
    include_str!("web/app.js"),
    include_str!("web/panels/overview.js"),
    include_str!("web/panels/rows.js"),
    include_str!("web/panels/timeline.js"),
    include_str!("web/panels/painting.js"),
    include_str!("web/panels/slices.js"),
    include_str!("web/panels/steps.js"),
    include_str!("web/panels/ops.js"),
    include_str!("web/panels/kernels.js"),
    include_str!("web/panels/memory.js"),
    include_str!("web/panels/scopes.js"),
    include_str!("web/panels/counters.js"),
    include_str!("web/panels/compare.js"),
    include_str!("web/panels/graph_text.js"),
    include_str!("web/panels/graph_tree.js"),
    include_str!("web/panels/graph_layout.js"),
    include_str!("web/panels/graph.js"),
    include_str!("web/panels/noted.js"),
    include_str!("web/panels/curves.js"),
    include_str!("web/panels/scalars.js"),
    include_str!("web/panels/distributions.js"),
    include_str!("web/panels/histograms.js"),
    include_str!("web/panels/images.js"),
    include_str!("web/panels/lineage.js"),
    include_str!("web/panels/contour.js"),
    include_str!("web/panels/surface.js"),
    include_str!("web/panels/landscape.js"),
    include_str!("web/panels/logs.js"),
    include_str!("web/start.js"),
);

/// Bytes of the data in a comment. A browser takes twice as long to read all of them from one.
const PART: usize = 3 << 20;

/// The page. With data it is whole; without, it asks its server for them. Nothing else differs. The first part of the data is what the
/// page needs to start, and stands before its program; the second stands behind it. They lie in comments, which a browser reads in half
/// the time of elements.
pub(crate) fn page(data: Option<(&[u8], &[u8])>) -> String {
    let comments = |bytes: &[u8]| -> String {
        let comment = |part: &[u8]| format!("<!--{}-->\n", base64(part));
        bytes.chunks(PART).map(comment).collect()
    };
    let (front, late) = match data {
        None => (String::new(), String::new()),
        Some((front, late)) => {
            let all = front.len() + late.len();
            let head = format!("<template id=\"data\" data-all=\"{all}\"></template>\n");
            (head + &comments(front), comments(late))
        }
    };
    let room = SHELL.len() + STYLE.len() + SCRIPT.len() + front.len() + late.len() + 400;
    let mut page = String::with_capacity(room);
    let (mut rest, policy) = (SHELL, policy());
    // Each part is put in once, so that no text of a part is taken for the name of another.
    for (name, text) in [
        ("{{policy}}", policy.as_str()),
        ("{{style}}", STYLE),
        ("{{front}}", &front),
        ("{{script}}", SCRIPT),
        ("{{late}}", &late),
    ] {
        if let Some((before, behind)) = rest.split_once(name) {
            page.push_str(before);
            page.push_str(text);
            rest = behind;
        }
    }
    page.push_str(rest);
    page
}

/// What the page may do: run its own script, wear its own style, and ask the server that it came from. A page from a file has none.
pub(crate) fn policy() -> String {
    let sum = |text: &str| base64(&Sha256::digest(text.as_bytes()));
    format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; img-src data: blob:; connect-src 'self'; base-uri 'none'; \
         form-action 'none'",
        sum(SCRIPT),
        sum(STYLE)
    )
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = Vec::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        let digit = |at: u32| DIGITS[(bits >> (18 - 6 * at) & 63) as usize];
        text.extend([digit(0), digit(1), digit(2), digit(3)]);
        let missing = 3 - three.len();
        let end = text.len() - missing;
        text[end..].fill(b'=');
    }
    // All of them are ASCII.
    String::from_utf8(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_as_in_its_standard() {
        for (plain, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(plain.as_bytes()), text);
        }
        assert_eq!(base64(&[0xfb, 0xff, 0xfe]), "+//+");
    }

    #[test]
    fn served_and_exported_pages_differ_in_their_data_alone() {
        let (served, exported) = (page(None), page(Some((b"all that", b" is shown"))));
        let front = "<template id=\"data\" data-all=\"17\"></template>\n<!--YWxsIHRoYXQ=-->\n";
        let late = "<!--IGlzIHNob3du-->\n";
        assert_eq!(exported.replacen(front, "", 1).replacen(late, "", 1), served);
        let places = [front, SCRIPT, late].map(|part| exported.find(part).unwrap());
        assert!(places.is_sorted(), "the program stands between: {places:?}");
        let large = page(Some((&vec![7; 2 * PART + 1], &[])));
        assert_eq!(large.matches("<!--").count(), 3);
        assert!(large.contains("<!--Bw==-->"));
        // The page takes every comment for data.
        assert!(!served.contains("<!--"));
    }

    #[test]
    fn the_page_names_no_other_place() {
        let page = page(None);
        assert!(!page.contains("{{"), "a part is missing");
        for word in [
            "http://",
            "https://",
            "//cdn",
            "@import",
            "innerHTML",
            "eval(",
            "document.write",
        ] {
            let allowed = "http://www.w3.org/2000/svg";
            assert!(!page.replace(allowed, "").contains(word), "{word}");
        }
        // What would end the script before its end.
        assert!(!SCRIPT.contains("</script") && !STYLE.contains("</style"));
    }
}
