//! One case: a model and sets of inputs with the outputs that are expected.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use heddle::{
    CompileOptions, ErrorKind, Inputs, Interpreted, Model, Program, Tolerance, Value, compare,
};
use heddle_ir::Type;
use serde_json::Value as Json;

use crate::args::Exec;
use crate::commands::{self, Given};
use crate::fail::{Exit, Failure};

/// Settings of all cases.
#[derive(Clone)]
pub struct Settings {
    /// Options of running.
    pub exec: Exec,
    /// Is the text of each uProgram read back?
    pub check_text: bool,
    /// Time limit of a case.
    pub timeout: Duration,
    /// Tolerances where a case has none of its own.
    pub rtol: f64,
    /// As above.
    pub atol: f64,
}

/// A case's folder.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its place among all cases.
    pub number: usize,
    /// The folder's name.
    pub name: String,
    /// The folder.
    pub folder: PathBuf,
    model: PathBuf,
}

/// Outcome of a case.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// All outputs of all sets are as expected.
    Passed,
    /// Something is wrong.
    Failed(String),
    /// The model uses something that Heddle does not support.
    Unsupported(String),
}

/// The end of a case.
#[derive(Clone, Debug)]
pub struct Ended {
    pub verdict: Verdict,
    /// Device that ran it, unless it ended before that.
    pub means: Option<Means>,
    /// Number of uPrograms whose text was read back.
    pub texts: usize,
}

impl Ended {
    /// It failed for this reason.
    pub fn failed(why: String) -> Self {
        Self {
            verdict: Verdict::Failed(why),
            means: None,
            texts: 0,
        }
    }
}

/// Device that ran a case.
#[derive(Clone, Debug, PartialEq)]
pub enum Means {
    /// The device that was asked for.
    Device,
    /// The interpreter in its place.
    Interpreter(Interpreted),
}

/// All cases in these folders, each of which is a case or holds cases at any depth; sorted by path.
pub fn find(dirs: &[PathBuf]) -> Result<Vec<Case>, Failure> {
    let mut cases = vec![];
    for dir in dirs {
        let before = cases.len();
        // The name of `.` or `..` is that of the folder that it stands for.
        let dir = if dir.file_name().is_none() {
            dir.canonicalize().unwrap_or(dir.clone())
        } else {
            dir.clone()
        };
        find_in(&dir, &mut cases)?;
        if cases.len() == before {
            let text = format!("{} holds no cases", dir.display());
            let hint = "a case is a folder with model.onnx or model.heddle and test_data_set_0";
            return Err(Failure::new(Exit::Invalid, text).hint(hint));
        }
    }
    for (number, case) in cases.iter_mut().enumerate() {
        case.number = number;
    }
    Ok(cases)
}

fn find_in(folder: &Path, cases: &mut Vec<Case>) -> Result<(), Failure> {
    let models = ["model.onnx", "model.heddle"].map(|name| folder.join(name));
    if let Some(model) = models.into_iter().find(|m| m.is_file()) {
        let name = folder
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        cases.push(Case {
            number: 0,
            name,
            folder: folder.into(),
            model,
        });
        return Ok(());
    }
    for entry in entries(folder).map_err(|text| Failure::new(Exit::Io, text))? {
        if entry.is_dir() && !entry.is_symlink() {
            find_in(&entry, cases)?;
        }
    }
    Ok(())
}

impl Case {
    /// Runs the case.
    pub fn run(&self, settings: &Settings) -> Ended {
        let (mut means, mut texts) = (None, 0);
        let result = self.attempt(settings, &mut means, &mut texts);
        Ended {
            verdict: result.err().unwrap_or(Verdict::Passed),
            means,
            texts,
        }
    }

    fn attempt(
        &self,
        settings: &Settings,
        means: &mut Option<Means>,
        texts: &mut usize,
    ) -> Result<(), Verdict> {
        let tolerance = self.tolerance(settings).map_err(Verdict::Failed)?;
        let sets: Vec<_> = entries(&self.folder)
            .map_err(Verdict::Failed)?
            .into_iter()
            .filter(|p| p.is_dir() && file_name(p).starts_with("test_data_set"))
            .collect();
        if sets.is_empty() {
            return Err(Verdict::Failed("the case has no test_data_set_0".into()));
        }
        let plain = self.load(settings, Given::new());
        let optional: HashSet<String> = match &plain {
            Ok((model, _)) => model.optional_inputs().iter(),
            Err(_) => [].iter(),
        }
        .map(|port| port.name.clone())
        .collect();
        let mut programs: Vec<(Given, Program)> = vec![];
        for set in &sets {
            let place = |text: String| match sets.len() {
                1 => text,
                _ => format!("{}: {text}", file_name(set)),
            };
            let given = given(set, plain.as_ref().ok().map(|(model, _)| model), &optional);
            let given = given.map_err(Verdict::Failed)?;
            if !programs.iter().any(|(of, _)| *of == given) {
                let loaded = match (&plain, given.is_empty()) {
                    (Ok((model, options)), true) => Ok((model.clone(), options.clone())),
                    (Err(verdict), true) => Err(verdict.clone()),
                    (_, false) => self.load(settings, given.clone()),
                };
                let (model, options) = loaded?;
                let program = heddle::compile(&model, &options).map_err(verdict)?;
                *texts += program.report().texts_checked;
                programs.push((given.clone(), program));
            }
            let program = programs.iter().find(|(of, _)| *of == given);
            let (_, program) = program.expect("compiled above");
            let by_name = !optional.is_empty();
            run_set(program, set, by_name, settings, &tolerance, means).map_err(|v| match v {
                Verdict::Failed(why) => Verdict::Failed(place(why)),
                other => other,
            })?;
        }
        Ok(())
    }

    fn load(&self, settings: &Settings, given: Given) -> Result<(Model, CompileOptions), Verdict> {
        let loaded = commands::load(&self.model, None, &settings.exec, given);
        let (model, options) = loaded.map_err(verdict)?;
        let options = CompileOptions {
            check_text: settings.check_text,
            ..options
        };
        Ok((model, options))
    }

    /// The tolerance, where `tolerance.json` says something else than the command line.
    fn tolerance(&self, settings: &Settings) -> Result<Tolerance, String> {
        let mut tolerance = Tolerance {
            rtol: settings.rtol,
            atol: settings.atol,
            exact_integers: false,
            any_float: settings.exec.f64,
        };
        let path = self.folder.join("tolerance.json");
        if !path.exists() {
            return Ok(tolerance);
        }
        let text = fs::read_to_string(&path).map_err(|e| format!("tolerance.json: {e}"))?;
        let value: Json =
            serde_json::from_str(&text).map_err(|e| format!("tolerance.json: {e}"))?;
        let number = |key: &str, old: f64| match &value[key] {
            Json::Null => Ok(old),
            given => {
                let given = given.as_f64().filter(|v| *v >= 0.0);
                given.ok_or_else(|| format!("tolerance.json: `{key}` is no tolerance"))
            }
        };
        tolerance.rtol = number("rtol", tolerance.rtol)?;
        tolerance.atol = number("atol", tolerance.atol)?;
        Ok(tolerance)
    }
}

fn run_set(
    program: &Program,
    set: &Path,
    by_name: bool,
    settings: &Settings,
    tolerance: &Tolerance,
    means: &mut Option<Means>,
) -> Result<(), Verdict> {
    let sig = &program.module().entry().sig;
    let inputs: Inputs = read_values(set, "input", &sig.params, by_name)?
        .into_iter()
        .map(|(i, value)| (sig.params[i].0.clone(), value))
        .collect();
    let expected = read_values(set, "output", &sig.results, false)?;
    let mut options = commands::run_options(&settings.exec, 0);
    options.timeout = Some(settings.timeout);
    let run = program.run(inputs, &options).map_err(verdict)?;
    *means = Some(match run.report.interpreted {
        None => Means::Device,
        Some(why) => Means::Interpreter(why),
    });
    if expected.len() != run.outputs.len() {
        let (want, got) = (expected.len(), run.outputs.len());
        let text = format!("{want} outputs are expected, but the model has {got}");
        return Err(Verdict::Failed(text));
    }
    for ((name, got), (_, want)) in run.outputs.iter().zip(&expected) {
        compare(got, want, tolerance)
            .map_err(|m| Verdict::Failed(format!("output `{name}`: {m}")))?;
    }
    Ok(())
}

/// Inputs to load a model with, by a set's files: optional ones that have a value, and the ranks of those that are declared
/// without one. For a model that is refused without ranks, these are the ranks of all names in the files.
fn given(set: &Path, model: Option<&Model>, optional: &HashSet<String>) -> Result<Given, String> {
    let params = model.map(|m| m.module().entry().sig.params.as_slice());
    let is_unranked = |(_, ty): &(String, Type)| ty.as_tensor().is_some_and(|t| t.shape.is_none());
    if optional.is_empty() && params.is_some_and(|p| !p.iter().any(is_unranked)) {
        return Ok(Given::new());
    }
    let mut given = Given::new();
    for path in entries(set)? {
        let Some(number) = number(&path, "input") else {
            continue;
        };
        let Some((name, rank)) = heddle_onnx::read_label(&path) else {
            continue;
        };
        let Some(params) = params else {
            given.extend(name.map(|name| (name, Some(rank))));
            continue;
        };
        if let Some(name) = name.as_ref().filter(|name| optional.contains(*name)) {
            given.insert(name.clone(), Some(rank));
        }
        let port = port(params, name.filter(|_| !optional.is_empty()), number);
        if let Some((_, port)) = port.filter(|(_, port)| is_unranked(port)) {
            given.insert(port.0.clone(), Some(rank));
        }
    }
    Ok(given)
}

/// The number in the name `KIND_I.pb` of a file.
fn number(path: &Path, kind: &str) -> Option<Option<usize>> {
    let name = file_name(path);
    let number = name.strip_prefix(kind)?.strip_prefix('_')?;
    Some(number.strip_suffix(".pb")?.parse().ok())
}

/// The port that a file is for: that of the name in it, else that of its number.
fn port(
    ports: &[(String, Type)],
    name: Option<String>,
    number: Option<usize>,
) -> Option<(usize, &(String, Type))> {
    let named = name.and_then(|name| ports.iter().position(|p| p.0 == name));
    let i = named.or(number)?;
    Some((i, ports.get(i)?))
}

/// The values in `KIND_I.pb`, by their numbers; those that are not there are left out. With `by_name` the name in the file counts
/// before its number: inputs that are left to their defaults have no numbers.
fn read_values(
    set: &Path,
    kind: &str,
    ports: &[(String, Type)],
    by_name: bool,
) -> Result<Vec<(usize, Value)>, Verdict> {
    let mut values = vec![];
    for path in entries(set).map_err(Verdict::Failed)? {
        let Some(number) = number(&path, kind) else {
            continue;
        };
        let label = by_name.then(|| heddle_onnx::read_label(&path)).flatten();
        let name = file_name(&path);
        let Some((i, (_, ty))) = port(ports, label.and_then(|l| l.0), number) else {
            let text = format!("{name}: the model has only {} {kind}s", ports.len());
            return Err(Verdict::Failed(text));
        };
        let value = heddle_onnx::read_datum(&path, ty);
        let value = value.map_err(|e| Verdict::Failed(format!("{name}: {e}")))?;
        values.push((i, value.into()));
    }
    values.sort_by_key(|(i, _)| *i);
    Ok(values)
}

fn verdict(error: heddle::Error) -> Verdict {
    match error.kind() {
        ErrorKind::Unsupported => Verdict::Unsupported(error.to_string()),
        _ => Verdict::Failed(error.to_string()),
    }
}

/// Entries of a folder, sorted.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let read = || -> std::io::Result<Vec<PathBuf>> {
        let mut list = fs::read_dir(folder)?
            .map(|e| Ok(e?.path()))
            .collect::<std::io::Result<Vec<_>>>()?;
        list.sort();
        Ok(list)
    };
    read().map_err(|e| format!("cannot read {}: {e}", folder.display()))
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}
