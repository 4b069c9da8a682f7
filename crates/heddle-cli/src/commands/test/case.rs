//! One case: a model and sets of inputs with the outputs that are expected.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use heddle::{CompileOptions, ErrorKind, Inputs, Interpreted, Program, Tolerance, Value, compare};
use heddle_ir::Type;
use serde_json::Value as Json;

use crate::args::Exec;
use crate::commands;
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
        let mut compiled = |overrides: HashSet<String>| {
            let given = overrides.into_iter().map(|name| (name, None)).collect();
            let (model, options) =
                commands::load(&self.model, None, &settings.exec, given).map_err(verdict)?;
            let options = CompileOptions {
                check_text: settings.check_text,
                ..options
            };
            let program = heddle::compile(&model, &options).map_err(verdict)?;
            *texts += program.report().texts_checked;
            Ok((model, program))
        };
        let (model, program) = compiled(HashSet::new())?;
        let optional: HashSet<_> = model.optional_inputs().iter().map(|p| &p.name).collect();
        let sets: Vec<_> = entries(&self.folder)
            .map_err(Verdict::Failed)?
            .into_iter()
            .filter(|p| p.is_dir() && file_name(p).starts_with("test_data_set"))
            .collect();
        if sets.is_empty() {
            return Err(Verdict::Failed("the case has no test_data_set_0".into()));
        }
        for set in &sets {
            let place = |text: String| match sets.len() {
                1 => text,
                _ => format!("{}: {text}", file_name(set)),
            };
            let overrides = match optional.is_empty() {
                true => HashSet::new(),
                false => named(set, &optional).map_err(Verdict::Failed)?,
            };
            let other = match overrides.is_empty() {
                true => None,
                false => Some(compiled(overrides)?.1),
            };
            let program = other.as_ref().unwrap_or(&program);
            let by_name = !optional.is_empty();
            run_set(program, set, by_name, settings, &tolerance, means).map_err(|v| match v {
                Verdict::Failed(why) => Verdict::Failed(place(why)),
                other => other,
            })?;
        }
        Ok(())
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

/// Those of the model's optional inputs that a set's files are named after.
fn named(set: &Path, optional: &HashSet<&String>) -> Result<HashSet<String>, String> {
    let files = entries(set)?
        .into_iter()
        .filter(|p| file_name(p).starts_with("input_"));
    let names = files.filter_map(|path| heddle_onnx::read_name(&path));
    Ok(names.filter(|name| optional.contains(name)).collect())
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
        let name = file_name(&path);
        let number = name.strip_prefix(kind).and_then(|n| n.strip_prefix('_'));
        let Some(number) = number.and_then(|n| n.strip_suffix(".pb")) else {
            continue;
        };
        let stored = by_name.then(|| heddle_onnx::read_name(&path)).flatten();
        let place = stored.and_then(|name| ports.iter().position(|p| p.0 == name));
        let port = place
            .or_else(|| number.parse().ok())
            .and_then(|i: usize| Some((i, ports.get(i)?)));
        let Some((i, (_, ty))) = port else {
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
