use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use dauntless_contract::{BreakerStatus, DependencyKind};

use super::*;
use crate::config;
use crate::wiring::App;

/// A folder that is gone after the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("dauntless-control-{}-{number}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

async fn app() -> App {
    let text = "[model]\nprovider = \"openai\"\nname = \"m\"\n\
                [agents.clerk]\ninstructions = \"Work.\"\ntools = [\"echo\", \"list\"]\n\
                [tools.echo]\ndescription = \"Echo.\"\ncommand.argv = [\"true\"]\n\
                [tools.list]\ndescription = \"List.\"\ncommand.argv = [\"true\"]\n";
    let config = config::parse(text, "test.toml", Path::new("")).unwrap();
    let environment = |name: &str| match name {
        "PATH" => std::env::var(name).ok(),
        "OPENAI_API_KEY" => Some("sk-test".to_owned()),
        _ => None,
    };
    App::assemble(&config, &environment).await.unwrap()
}

async fn status(path: &Path) -> ProcessStatus {
    match ask(path, &Question::Status).await.unwrap() {
        Answer::Status(status) => status,
        other => panic!("{other:?}"),
    }
}

async fn switch(path: &Path, tool: &str, to: BreakerSwitch) -> Answer {
    ask(path, &Question::Switch { tool: tool.to_owned(), to }).await.unwrap()
}

/// What the socket says to these bytes, read as a stranger would.
async fn said(path: &Path, bytes: Vec<u8>) -> String {
    let path = path.to_owned();
    let talk = move || {
        let mut stream = UnixStream::connect(path).unwrap();
        stream.write_all(&bytes).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8(answer).unwrap()
    };
    tokio::task::spawn_blocking(talk).await.unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn a_process_tells_how_its_tools_and_models_stand() {
    let (folder, app) = (Folder::new(), app().await);
    let socket = ControlSocket::open_in(&app, &folder.path("run")).await.unwrap();
    let ProcessStatus { pid, version, tools, .. } = status(socket.path()).await;
    assert_eq!((pid, &*version), (std::process::id(), env!("CARGO_PKG_VERSION")));
    let names: Vec<_> = tools.iter().map(|tool| (&*tool.name, tool.kind)).collect();
    use DependencyKind::{Model, Tool};
    assert_eq!(names, [("echo", Tool), ("list", Tool), ("m", Model)]);
    app.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn an_operator_switches_a_tool_and_is_told_how_it_stands() {
    let (folder, app) = (Folder::new(), app().await);
    let socket = ControlSocket::open_in(&app, &folder.path("run")).await.unwrap();
    for (to, then) in [
        (BreakerSwitch::Open, BreakerStatus::ForcedOpen),
        (BreakerSwitch::Close, BreakerStatus::ForcedClosed),
        (BreakerSwitch::Reset, BreakerStatus::Closed),
    ] {
        let Answer::Switched { tool } = switch(socket.path(), "echo", to).await else { panic!("refused") };
        assert_eq!((&*tool.name, tool.breaker), ("echo", then));
        let breakers: Vec<_> =
            status(socket.path()).await.tools.into_iter().map(|tool| tool.breaker).collect();
        assert_eq!(breakers, [then, BreakerStatus::Closed, BreakerStatus::Closed], "and no other");
    }
    let why = |answer| match answer {
        Answer::Refused { why } => why,
        other => panic!("{other:?}"),
    };
    let unknown = why(switch(socket.path(), "ech", BreakerSwitch::Open).await);
    assert_eq!(unknown, "there is no tool `ech`; this process has: echo, list");
    let model = why(switch(socket.path(), "m", BreakerSwitch::Open).await);
    assert_eq!(model, "`m` is a model; only tools are switched");
    app.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn what_is_no_question_gets_a_clear_answer_and_harms_nothing() {
    let (folder, app) = (Folder::new(), app().await);
    let socket = ControlSocket::open_in(&app, &folder.path("run")).await.unwrap();
    let answer = said(socket.path(), b"{\"ask\":\"reboot\"}\n".to_vec()).await;
    let expected = "Dauntless 0.1.0 does not understand this question: unknown variant `reboot`, expected \
                    `status` or `switch` at line 1 column 15";
    assert_eq!(answer, format!("{{\"answer\":\"refused\",\"why\":\"{expected}\"}}\n"));
    let too_long = said(socket.path(), vec![b'x'; 100_000]).await;
    assert!(too_long.contains("a question is one line of at most 4096 bytes"), "{too_long}");
    assert!(said(socket.path(), b"not json\n".to_vec()).await.contains("does not understand"));
    assert_eq!(said(socket.path(), Vec::new()).await, "");
    assert_eq!(status(socket.path()).await.tools.len(), 3);
    app.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn visitors_who_say_nothing_keep_nobody_out_for_long() {
    let (folder, app) = (Folder::new(), app().await);
    let socket = ControlSocket::open_in(&app, &folder.path("run")).await.unwrap();
    let silent = [(); 8].map(|()| UnixStream::connect(socket.path()).unwrap());
    assert_eq!(status(socket.path()).await.tools.len(), 3);
    drop(silent);
    app.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn only_its_owner_can_open_the_socket_and_it_is_gone_at_the_end() {
    let (folder, app) = (Folder::new(), app().await);
    let run = folder.path("run");
    let socket = ControlSocket::open_in(&app, &run).await.unwrap();
    let path = socket.path().to_owned();
    assert_eq!((mode(&run), mode(&path)), (0o700, 0o600));
    assert_eq!(sockets(&run).unwrap(), std::slice::from_ref(&path));
    drop(socket);
    assert_eq!(fs::read_dir(&run).unwrap().count(), 0, "nothing is left");
    assert!(matches!(ask(&path, &Question::Status).await, Err(AskError::Gone(_))));
    app.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn a_folder_that_others_can_open_is_refused() {
    let (folder, app) = (Folder::new(), app().await);
    let run = folder.path("run");
    fs::create_dir(&run).unwrap();
    fs::set_permissions(&run, fs::Permissions::from_mode(0o755)).unwrap();
    let expected = format!("{}: other users can open it; make it private with `chmod 700`", run.display());
    assert_eq!(ControlSocket::open_in(&app, &run).await.unwrap_err().to_string(), expected);
    assert_eq!(sockets(&run).unwrap_err().to_string(), expected);
    let file = folder.path("file");
    fs::write(&file, "").unwrap();
    assert!(sockets(&file).unwrap_err().to_string().ends_with("it is no folder"));
    assert_eq!(sockets(&folder.path("absent")).unwrap(), Vec::<PathBuf>::new());
    app.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn the_sockets_of_dead_processes_are_removed_and_those_of_living_ones_are_not() {
    let (folder, app) = (Folder::new(), app().await);
    let run = folder.path("run");
    place::prepare(&run).unwrap();
    drop(UnixListener::bind(run.join("1.sock")).unwrap());
    let _living = UnixListener::bind(run.join("2.sock")).unwrap();
    fs::write(run.join("notes.txt"), "").unwrap();
    // This process had an earlier one's id.
    drop(UnixListener::bind(socket_of(&run, std::process::id())).unwrap());
    let socket = ControlSocket::open_in(&app, &run).await.unwrap();
    assert_eq!(sockets(&run).unwrap(), [run.join("2.sock"), socket.path().to_owned()]);
    assert!(run.join("notes.txt").exists());
    app.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn a_path_of_the_operators_choice_replaces_nothing_but_a_dead_socket() {
    let (folder, app) = (Folder::new(), app().await);
    let path = folder.path("control");
    let refused = async || ControlSocket::open(&app, &path).await.unwrap_err().why;
    fs::write(&path, "mine").unwrap();
    assert_eq!(refused().await, "there is a file that is no socket");
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    fs::remove_file(&path).unwrap();
    let living = UnixListener::bind(&path).unwrap();
    assert_eq!(refused().await, "another process listens there");
    drop(living);
    let socket = ControlSocket::open(&app, &path).await.unwrap();
    assert_eq!(status(&path).await.tools.len(), 3);
    drop(socket);
    let nowhere = ControlSocket::open(&app, &folder.path("no/such/folder")).await.unwrap_err();
    assert!(nowhere.why.contains("No such file"), "{nowhere}");
    app.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn a_process_that_does_not_answer_is_told_from_one_that_is_gone() {
    let folder = Folder::new();
    let path = folder.path("silent");
    let listener = UnixListener::bind(&path).unwrap();
    let odd = std::thread::spawn(move || {
        for answer in [&b"hello\n"[..], b""] {
            let (mut stream, _) = listener.accept().unwrap();
            std::io::BufRead::read_line(&mut std::io::BufReader::new(&stream), &mut String::new()).unwrap();
            stream.write_all(answer).unwrap();
        }
    });
    assert!(matches!(ask(&path, &Question::Status).await, Err(AskError::Odd { .. })));
    assert!(matches!(ask(&path, &Question::Status).await, Err(AskError::Gone(_))), "it ended meanwhile");
    odd.join().unwrap();
    assert!(matches!(ask(&path, &Question::Status).await, Err(AskError::Gone(_))));
}
