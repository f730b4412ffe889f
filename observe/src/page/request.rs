//! What a browser asks, and what it is answered.

use std::io::{self, Read, Write};
use std::net::IpAddr;

/// Most bytes of a request. Ours have none but a few headers.
const MOST: usize = 8 << 10;

/// A request that is understood.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// `/data`, without what follows a question mark.
    pub(crate) path: String,
    pub(crate) host: String,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It is none, or asks for what no browser asks.
    Malformed,
    TooLarge,
    /// It would change something.
    Method,
    /// It came by a name that is not ours: a foreign page whose name leads here.
    Host,
    NotFound,
    Busy,
    /// Nothing came: a browser connects before it has anything to ask.
    Nothing,
}

impl Refused {
    fn status(self) -> &'static str {
        match self {
            Refused::Malformed => "400 Bad Request",
            Refused::TooLarge => "431 Request Header Fields Too Large",
            Refused::Method => "405 Method Not Allowed",
            Refused::Host => "421 Misdirected Request",
            Refused::NotFound => "404 Not Found",
            Refused::Busy => "503 Service Unavailable",
            Refused::Nothing => "408 Request Timeout",
        }
    }

    fn text(self) -> &'static str {
        match self {
            Refused::Malformed => "This is no request.\n",
            Refused::TooLarge => "The request is too large.\n",
            Refused::Method => "Only GET is answered.\n",
            Refused::Host => "This name is not served; use the address that `thalweg view` printed.\n",
            Refused::NotFound => "There is nothing here but the page at /.\n",
            Refused::Busy => "There are too many connections.\n",
            Refused::Nothing => "No request came.\n",
        }
    }

    /// Answers with the reason. A connection without a request gets none: the browser would take it for the answer to its next request.
    pub(crate) fn answer(self, to: &mut impl Write) -> io::Result<()> {
        if self == Refused::Nothing {
            return Ok(());
        }
        answer(
            to,
            self.status(),
            "text/plain; charset=utf-8",
            "",
            self.text().as_bytes(),
        )
    }
}

impl Request {
    /// Reads a request up to the end of its headers. `more` says whether there is time for another read.
    pub(crate) fn read(from: &mut impl Read, mut more: impl FnMut() -> bool) -> Result<Request, Refused> {
        let (mut head, mut part) = (Vec::new(), [0; 1024]);
        loop {
            if let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") {
                head.truncate(end);
                return Request::parse(&head);
            }
            if head.len() > MOST {
                return Err(Refused::TooLarge);
            }
            match from.read(&mut part) {
                Ok(count) if count > 0 && more() => head.extend_from_slice(&part[..count]),
                Ok(0) | Err(_) if head.is_empty() => return Err(Refused::Nothing),
                Ok(_) | Err(_) => return Err(Refused::Malformed),
            }
        }
    }

    fn parse(head: &[u8]) -> Result<Request, Refused> {
        let head = std::str::from_utf8(head).map_err(|_| Refused::Malformed)?;
        let mut lines = head.split("\r\n");
        let mut words = lines.next().unwrap_or_default().split(' ');
        let (Some(method), Some(target), Some(version), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(Refused::Malformed);
        };
        if !version.starts_with("HTTP/1.") || !target.starts_with('/') {
            return Err(Refused::Malformed);
        }
        if method != "GET" {
            return Err(Refused::Method);
        }
        let mut host = None;
        for line in lines {
            let (name, value) = line.split_once(':').ok_or(Refused::Malformed)?;
            let is = |wanted: &str| name.eq_ignore_ascii_case(wanted);
            if is("host") && host.replace(value.trim().to_owned()).is_some() {
                return Err(Refused::Malformed);
            }
            if is("transfer-encoding") || is("content-length") && value.trim() != "0" {
                return Err(Refused::Malformed);
            }
        }
        let path = target.split('?').next().unwrap_or_default();
        Ok(Request {
            path: path.to_owned(),
            host: host.ok_or(Refused::Malformed)?,
        })
    }

    /// Whether it came by an address, by `localhost`, or by the name that the server listens on. Any other name belongs to a foreign page
    /// whose owner lets the name lead to this machine, to read what is served here.
    pub(crate) fn comes_by(&self, name: &str, port: u16) -> bool {
        let (host, of_host) = match self.host.rsplit_once(':') {
            Some((host, digits)) if !digits.contains(']') => (host, digits.parse().ok()),
            Some(_) | None => (self.host.as_str(), Some(80)),
        };
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host);
        of_host == Some(port)
            && (bare.parse::<IpAddr>().is_ok()
                || bare.eq_ignore_ascii_case("localhost")
                || bare.eq_ignore_ascii_case(name))
    }
}

/// Answers with `body`; `more` are further headers, each with its line break.
pub(crate) fn answer(
    to: &mut impl Write,
    status: &str,
    kind: &str,
    more: &str,
    body: &[u8],
) -> io::Result<()> {
    write!(
        to,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\nCache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\nReferrer-Policy: no-referrer\r\n\
         Cross-Origin-Resource-Policy: same-origin\r\n{more}\r\n",
        body.len()
    )?;
    to.write_all(body)?;
    to.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<Request, Refused> {
        Request::read(&mut text.as_bytes(), || true)
    }

    #[test]
    fn requests() {
        let get = |line: &str| format!("{line}\r\nHost: 127.0.0.1:8080\r\nAccept: */*\r\n\r\n");
        let request = read(&get("GET /data?now HTTP/1.1")).unwrap();
        assert_eq!(
            (request.path.as_str(), request.host.as_str()),
            ("/data", "127.0.0.1:8080")
        );
        for (text, refused) in [
            (get("POST / HTTP/1.1"), Refused::Method),
            (get("OPTIONS / HTTP/1.1"), Refused::Method),
            (get("GET http://example.com/ HTTP/1.1"), Refused::Malformed),
            (get("GET  / HTTP/1.1"), Refused::Malformed),
            (get("GET / HTTP/2"), Refused::Malformed),
            (get("GET /"), Refused::Malformed),
            ("GET / HTTP/1.1\r\n\r\n".into(), Refused::Malformed),
            (
                "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n".into(),
                Refused::Malformed,
            ),
            (
                "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n".into(),
                Refused::Malformed,
            ),
            (
                "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".into(),
                Refused::Malformed,
            ),
            ("GET / HTTP/1.1\r\nHost: a\r\n".into(), Refused::Malformed),
            (
                format!("GET /{} HTTP/1.1\r\n", "a".repeat(10_000)),
                Refused::TooLarge,
            ),
        ] {
            assert_eq!(read(&text), Err(refused), "{text:.60}");
        }
        assert_eq!(read(""), Err(Refused::Nothing));
        let mut answered = Vec::new();
        Refused::Nothing.answer(&mut answered).unwrap();
        assert_eq!(answered, b"");
        let mut slow = get("GET / HTTP/1.1").into_bytes();
        slow.extend([0; 2000]);
        assert_eq!(
            Request::read(&mut &slow[..], || false),
            Err(Refused::Malformed),
            "no time is left"
        );
    }

    #[test]
    fn names_that_are_not_ours_are_refused() {
        let comes = |host: &str, name: &str| {
            let request = Request {
                path: "/".into(),
                host: host.into(),
            };
            request.comes_by(name, 8080)
        };
        for host in [
            "127.0.0.1:8080",
            "localhost:8080",
            "LOCALHOST:8080",
            "[::1]:8080",
            "10.1.2.3:8080",
        ] {
            assert!(comes(host, "127.0.0.1"), "{host}");
        }
        assert!(comes("workstation:8080", "workstation"));
        for host in [
            "example.com:8080",
            "127.0.0.1.example.com:8080",
            "localhost.example.com:8080",
            "127.0.0.1:80",
            "127.0.0.1",
            "[::1]",
            "",
            ":8080",
            "127.0.0.1:8080:8080",
            "127.0.0.1:99999",
        ] {
            assert!(!comes(host, "127.0.0.1"), "{host}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_are_a_fault(bytes in prop::collection::vec(any::<u8>(), 0..400), host in "\\PC*") {
            let _ = Request::read(&mut &bytes[..], || true);
            let request = Request { path: "/".into(), host };
            let _ = request.comes_by("127.0.0.1", 8080);
        }
    }
}
