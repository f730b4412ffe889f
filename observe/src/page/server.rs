//! The page over HTTP. It is read, never changed: there is GET alone, and nothing but the page and its data, whatever is asked.

use crate::error::{Error, Result};
use crate::page::data::Data;
use crate::page::html;
use crate::page::request::{Refused, Request, answer};
use crate::page::source::Source;
use std::io::{self, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Connections that are served at once.
const CONNECTIONS: usize = 32;
/// Time for a request to come.
const REQUEST: Duration = Duration::from_secs(10);
/// Time in which a part of an answer must be taken.
const ANSWER: Duration = Duration::from_secs(30);

/// Serves the page.
///
/// ```no_run
/// use thalweg_observe::page::{Server, Source};
///
/// let server = Server::bind(Source::new(&["out".into()])?, "127.0.0.1", 8080)?;
/// println!("{}", server.url());
/// server.run();
/// # #[allow(unreachable_code)]
/// # Ok::<(), thalweg_observe::Error>(())
/// ```
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    source: Source,
    page: String,
    policy: String,
    /// The name that it was told to listen on.
    name: String,
    port: u16,
    /// What was read last.
    data: Mutex<Option<Arc<Data>>>,
    connections: AtomicUsize,
}

impl Server {
    /// Listens on `host`, usually `127.0.0.1`, which this machine alone reaches. Port 0 takes a free one.
    ///
    /// # Errors
    /// [`Error::Listen`] for a port that is taken or not allowed, and a host that is none of this machine.
    pub fn bind(source: Source, host: &str, port: u16) -> Result<Server> {
        let failed = |error: io::Error| Error::Listen {
            address: format!("{host}:{port}"),
            advice: advice(&error, port),
            source: error,
        };
        let listener = TcpListener::bind((host, port)).map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        Ok(Server {
            listener,
            shared: Arc::new(Shared {
                source,
                page: html::page(None),
                policy: format!(
                    "Content-Security-Policy: {}; frame-ancestors 'none'\r\n",
                    html::policy()
                ),
                name: host.to_owned(),
                port,
                data: Mutex::new(None),
                connections: AtomicUsize::new(0),
            }),
        })
    }

    /// Where a browser finds it.
    pub fn url(&self) -> String {
        let name = &self.shared.name;
        let name = match name.parse::<IpAddr>() {
            Ok(address) if address.is_unspecified() => "localhost".to_owned(),
            Ok(IpAddr::V6(address)) => format!("[{address}]"),
            Ok(IpAddr::V4(_)) | Err(_) => name.clone(),
        };
        format!("http://{name}:{}/", self.shared.port)
    }

    /// Whether other machines reach it too.
    pub fn is_public(&self) -> bool {
        let address = self.listener.local_addr();
        !address.is_ok_and(|address| address.ip().is_loopback())
    }

    /// Reads the recordings, so that the first page does not wait for them.
    pub fn read(&self) -> Arc<Data> {
        self.shared.data()
    }

    /// Serves until the process ends.
    pub fn run(&self) -> ! {
        loop {
            // Nobody can be told of a connection that failed.
            let Ok((stream, _)) = self.listener.accept() else {
                // No file is left to open; some will be closed.
                std::thread::sleep(Duration::from_millis(50));
                continue;
            };
            let shared = Arc::clone(&self.shared);
            let serve = move || {
                let others = shared.connections.fetch_add(1, Ordering::Relaxed);
                let _ = serve(&shared, stream, others >= CONNECTIONS);
                shared.connections.fetch_sub(1, Ordering::Relaxed);
            };
            // A connection for which there is no thread is closed.
            let _ = std::thread::Builder::new().name("page".into()).spawn(serve);
        }
    }
}

fn advice(error: &io::Error, port: u16) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => "another program listens there; `--port 0` takes a free port",
        io::ErrorKind::PermissionDenied if port < 1024 => {
            "ports below 1024 are the system's; `--port 0` takes a free port"
        }
        _ => "`--host 127.0.0.1` is this machine",
    }
}

impl Shared {
    /// What the recordings are now. They are read anew where they have changed.
    fn data(&self) -> Arc<Data> {
        // A reader that panicked leaves what was read before.
        let mut data = self.data.lock().unwrap_or_else(PoisonError::into_inner);
        match &*data {
            Some(data) if data.state() == self.source.state() => Arc::clone(data),
            Some(_) | None => Arc::clone(data.insert(Arc::new(self.source.read()))),
        }
    }
}

/// Answers one request.
fn serve(shared: &Shared, mut stream: TcpStream, busy: bool) -> io::Result<()> {
    stream.set_read_timeout(Some(REQUEST))?;
    stream.set_write_timeout(Some(ANSWER))?;
    stream.set_nodelay(true)?;
    let until = Instant::now() + REQUEST;
    let request = Request::read(&mut stream, || Instant::now() < until).and_then(|request| {
        if busy {
            Err(Refused::Busy)
        } else if request.comes_by(&shared.name, shared.port) {
            Ok(request)
        } else {
            Err(Refused::Host)
        }
    });
    let request = match request {
        Ok(request) => request,
        Err(refused) => return refused.answer(&mut stream),
    };
    send(shared, &request.path, &mut stream)
}

fn send(shared: &Shared, path: &str, to: &mut impl Write) -> io::Result<()> {
    let policy = &shared.policy;
    match path {
        "/" => answer(to, "200 OK", "text/html; charset=utf-8", policy, shared.page.as_bytes()),
        "/data" => {
            let data = shared.data();
            answer(to, "200 OK", "application/octet-stream", policy, data.bytes())
        }
        "/state" => {
            let state = shared.source.state();
            answer(to, "200 OK", "text/plain; charset=utf-8", policy, state.as_bytes())
        }
        _ => Refused::NotFound.answer(to),
    }
}
