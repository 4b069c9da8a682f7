//! Products in the types of tensor cores: what is rounded, and where nothing is.

use std::collections::BTreeMap;

use heddle::{
    CompileOptions, Device, Emit, Grid, Inputs, Model, OpenOptions, Precision, Program, RunOptions,
    Sanitizer, Target, Tensor, Tolerance, compare, compile,
};

/// Products of ones that are a little too large for the types of tensor cores.
const PRODUCT: &str = "fn @main(%x: f32[n,64], %w: f32[64,n]) -> (%y: f32[n,n]) {
  %y = mul(dot(%x, %w), 0.5)
  return %y
}
";
const SIZE: usize = 70;
const ROUNDED: f32 = 32.0;

fn program(options: CompileOptions) -> Program {
    program_of(PRODUCT, options)
}

fn program_of(text: &str, options: CompileOptions) -> Program {
    compile(&Model::parse("product", text).unwrap(), &options).unwrap()
}

fn simulated(precision: Precision) -> CompileOptions {
    CompileOptions {
        device: Device::Sim,
        precision,
        verify: true,
        check_text: true,
        ..Default::default()
    }
}

/// The only number in the result.
fn result(program: &Program) -> f32 {
    result_of(program, [SIZE; 2])
}

/// The same of so many rows and columns.
fn result_of(program: &Program, [rows, columns]: [usize; 2]) -> f32 {
    let ones = |dims: [usize; 2]| {
        let values = vec![1.0f32 + 0.5f32.powi(12); dims[0] * dims[1]];
        Tensor::from_slice(dims.to_vec(), &values)
    };
    let inputs = Inputs::from_iter([
        ("x".to_string(), ones([rows, 64]).into()),
        ("w".to_string(), ones([64, columns]).into()),
    ]);
    let run = program.run(inputs, &RunOptions::default()).unwrap();
    let found = run.outputs["y"].as_tensor().unwrap();
    let found = found.to_vec::<f32>().unwrap();
    assert_eq!(found.len(), rows * columns);
    assert!(found.iter().all(|x| *x == found[0]), "{found:?}");
    found[0]
}

fn notes(program: &Program) -> String {
    program.report().notes.join("\n")
}

#[test]
fn tensor_cores_round_operands() {
    let exact = result(&program(simulated(Precision::F32)));
    assert!(exact > ROUNDED, "{exact}");
    for &precision in Precision::ALL {
        let program = program(simulated(precision));
        let wanted = match precision {
            Precision::F32 => exact,
            _ => ROUNDED,
        };
        assert_eq!(result(&program), wanted, "{precision}");
        assert_eq!(notes(&program), "", "{precision}");
    }
}

/// Blocks of four warps multiply many rows by warpgroups, also where 132 blocks share them.
#[test]
fn warpgroups_round_operands() {
    let sizes = [1024, 512];
    for (precision, word) in [
        (Precision::Tf32, "heddle_wgmma_tf32("),
        (Precision::Bf16, "heddle_wgmma_bf16("),
        (Precision::F16, "heddle_wgmma_f16("),
    ] {
        let text = PRODUCT.replace("[n,", &format!("[{},", sizes[0]));
        let text = text.replace(",n]", &format!(",{}]", sizes[1]));
        let options = CompileOptions {
            grid: "blocks=2,threads=128".parse().unwrap(),
            ..simulated(precision)
        };
        let program = program_of(&text, options);
        let source = program.emit(Target::Cuda, Emit::Source).unwrap();
        let source = source.to_string();
        let own = &source[source.rfind("HEDDLE_PROGRAM(").unwrap()..];
        assert!(own.contains(word), "{own}");
        assert_eq!(result_of(&program, sizes), ROUNDED, "{precision}");
        assert_eq!(notes(&program), "", "{precision}");
    }
}

/// A saved program keeps its precision.
#[test]
fn it_is_saved() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("product.hprog");
    program(simulated(Precision::Bf16)).save(&path).unwrap();
    let opened = Program::open(&path, &OpenOptions::default()).unwrap();
    assert_eq!(result(&opened), ROUNDED);
}

/// Processors, warps of 64 lanes and sanitizers have no tensor cores; the interpreter is what others are compared with.
#[test]
fn without_tensor_cores_nothing_is_rounded() {
    let precision = Precision::Tf32;
    let wide = Grid {
        warp: 64,
        ..Grid::default()
    };
    let sanitized = Grid {
        blocks: 2,
        threads: 32,
        ..Grid::default()
    };
    for options in [
        CompileOptions {
            device: Device::Cpu,
            precision,
            ..Default::default()
        },
        CompileOptions {
            grid: wide,
            ..simulated(precision)
        },
        CompileOptions {
            grid: sanitized,
            sanitize: Some(Sanitizer::Thread),
            ..simulated(precision)
        },
    ] {
        let program = program(options);
        let notes = notes(&program);
        assert!(
            notes.contains("products are multiplied in f32, not tf32"),
            "{notes}"
        );
        assert!(result(&program) > ROUNDED);
    }
    let program = program(CompileOptions {
        device: Device::Interp,
        precision,
        ..Default::default()
    });
    assert!(result(&program) > ROUNDED);
}

/// Numbers of half precision are those that tensor cores multiply: their products need no permission, and conversions are not stored.
#[test]
fn half_precision_is_multiplied_as_it_is() {
    for dtype in ["f16", "bf16"] {
        let text = "fn @main(%x: TYPE[n,n], %w: TYPE[n,n], %v: TYPE[n]) -> (%y: TYPE[n,n], %z: TYPE[n,n]) {
  %y = dot(%x, %w)
  %z = tanh(add(dot(transpose(%y, perm=[1,0]), %w), %v))
  return %y, %z
}
"
        .replace("TYPE", dtype);
        let model = Model::parse("half", &text).unwrap();
        let program = compile(&model, &simulated(Precision::F32)).unwrap();
        let source = program.emit(Target::Cuda, Emit::Source).unwrap();
        let source = source.to_string();
        let own = &source[source.rfind("HEDDLE_PROGRAM(").unwrap()..];
        // By warps, or by warpgroups where a block has the rows.
        let multiplies = ["mma", "wgmma"].map(|word| format!("heddle_{word}_{dtype}("));
        assert!(multiplies.iter().any(|word| own.contains(word)), "{own}");
        assert!(program.is_whole());
        // Results are rounded to 8 or 11 bits.
        let tolerance = Tolerance {
            rtol: 2e-2,
            atol: 2e-2,
            exact_integers: true,
            any_float: false,
        };
        for size in [1, 33, 70] {
            let sizes = BTreeMap::from([("n".to_string(), size)]);
            let inputs = program.draw(1, &sizes).unwrap();
            let run = |program: &Program| {
                let run = program.run(inputs.clone(), &RunOptions::default());
                run.unwrap().outputs
            };
            let (own, wanted) = (run(&program), run(&program.on_interpreter()));
            for (name, want) in &wanted {
                if let Err(differs) = compare(&own[name], want, &tolerance) {
                    panic!("{dtype}, size {size}, output {name}: {differs}");
                }
            }
        }
    }
}
