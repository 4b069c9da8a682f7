//! The number of times that blocks of a GPU wait for each other in a step of the papers' networks, at full size with one input.

use heddle::{CompileOptions, Emit, Model, Target, emit};

/// The schedule of a program for a whole GPU.
fn schedule_of(name: &str, text: &str) -> String {
    let model = Model::parse(name, text).unwrap_or_else(|e| panic!("{name}: {e}"));
    let options = CompileOptions {
        verify: true,
        ..CompileOptions::default()
    };
    let written = |stage| {
        let text = emit(&model, &options, Target::Cuda, stage);
        text.unwrap_or_else(|e| panic!("{name}: {e}")).to_string()
    };
    let schedule = written(Emit::Schedule);
    assert!(schedule.starts_with("132 units"), "{schedule}");
    // Lanes look side by side at the signals of many blocks.
    let source = written(Emit::Source);
    assert!(!source.contains("heddle_wait(env, u, "), "{source}");
    schedule
}

/// The program's outermost loop in a schedule: its statements, and those in it.
fn loop_in(schedule: &str) -> Vec<String> {
    let lines = schedule
        .lines()
        .skip_while(|line| !line.starts_with("loop "));
    let body = lines.skip(1).take_while(|line| line.starts_with("  "));
    body.map(str::to_string).collect()
}

/// Waits of blocks for others, as they are written.
fn waits(statements: &[String]) -> Vec<&str> {
    let all = statements.iter().map(|line| line.trim_start());
    all.filter(|line| line.starts_with("wait ") && !line.contains("lanes"))
        .collect()
}

/// The statements of the innermost loop.
fn innermost(statements: &[String]) -> Vec<String> {
    let depth = |line: &String| line.len() - line.trim_start().len();
    let last = statements
        .iter()
        .rposition(|line| line.trim_start().starts_with("loop "));
    let Some(last) = last else {
        return statements.to_vec();
    };
    let inside = depth(&statements[last]);
    let body = statements[last + 1..].iter();
    body.take_while(|line| depth(line) > inside)
        .cloned()
        .collect()
}

fn gate(g: &str, k: usize, width: usize) -> String {
    let [from, to] = [k, k + 1].map(|k| k * width);
    format!("slice(%{g}, [{from}], [{to}], [1], axes=[1])")
}

/// Cocktailer's LSTM: ten layers of 256, 64 steps.
fn lstm() -> String {
    let list = |form: &dyn Fn(usize) -> String| (0..10).map(form).collect::<Vec<_>>().join(", ");
    let params = list(&|l| format!("%w{l}: f32[256,1024], %u{l}: f32[256,1024], %b{l}: f32[1024]"));
    let mut layers = String::new();
    for l in 0..10 {
        let below = match l {
            0 => "x".into(),
            _ => format!("n{}", l - 1),
        };
        let g = format!("g{l}");
        let [i, o, f, c] = [0, 1, 2, 3].map(|k| gate(&g, k, 256));
        layers += &format!(
            "%g{l} = add(add(dot(%{below}, %w{l}), dot(%h{l}, %u{l})), %b{l})
             %d{l} = add(mul(sigmoid({f}), %c{l}), mul(sigmoid({i}), tanh({c})))
             %n{l} = mul(sigmoid({o}), tanh(%d{l}))\n"
        );
    }
    format!(
        "fn @main(%xs: f32[64,1,256], %zero: f32[1,256], {params}) -> (%y: f32[1,256]) {{
           {}, {} = loop %t trip 64 carry ({}, {}) {{
             %x = gather(%xs, %t, axis=0)
             {layers}
             continue carry {}, {}
           }}
           return %y9
         }}",
        list(&|l| format!("%y{l}: f32[1,256]")),
        list(&|l| format!("%z{l}: f32[1,256]")),
        list(&|l| format!("%h{l}: f32[1,256] = %zero")),
        list(&|l| format!("%c{l}: f32[1,256] = %zero")),
        list(&|l| format!("%n{l}")),
        list(&|l| format!("%d{l}")),
    )
}

#[test]
fn layers_are_a_wavefront() {
    let schedule = schedule_of("lstm", &lstm());
    let body = loop_in(&schedule);
    let found = waits(&body);
    // Layers wait for their neighbours once in each step of the wave, and blocks of a layer for each other.
    let near = "wait  each of 10 teams for its neighbours";
    assert_eq!(
        found.iter().filter(|wait| **wait == near).count(),
        1,
        "{found:?}"
    );
    let of_a_team = |wait: &&str| {
        let mut teams = (0..10).map(|k| format!("team {k} of 10"));
        teams.any(|team| **wait == format!("wait  {team} for {team}"))
    };
    assert!(
        found.iter().all(|wait| *wait == near || of_a_team(wait)),
        "{found:?}"
    );
    // All of 132 blocks are in a team: the smallest has 13.
    for layer in 0..10 {
        let team = format!("team {layer} of 10");
        assert!(
            found.iter().any(|wait| wait.contains(&team)),
            "{layer}: {found:?}"
        );
        // Each has columns of the layer's 256.
        let products = |line: &&str| line.contains(" contract ") && line.contains(&team);
        let mut products = schedule.lines().filter(products).peekable();
        assert!(products.peek().is_some(), "{layer}: {schedule}");
        assert!(
            products.all(|line| line.contains("split along i1, block 256")),
            "{layer}: {schedule}"
        );
    }
}

#[test]
fn nasrnn_gathers_its_state_once_a_step() {
    let [z0, z1, z2, z3, z4, z5, z6, z7] = [0, 1, 2, 3, 4, 5, 6, 7].map(|k| gate("z", k, 256));
    let text = format!(
        "fn @main(%xs: f32[1000,1,256], %zero: f32[1,256], %w: f32[256,2048], %u: f32[256,2048]) -> (%y: f32[1,256]) {{
           %c9: f32[1,256], %m9: f32[1,256] = loop %t trip 1000 carry (%c: f32[1,256] = %zero, %m: f32[1,256] = %zero) {{
             %z = add(dot(gather(%xs, %t, axis=0), %w), dot(%m, %u))
             %a = tanh(mul(sigmoid({z0}), max({z1}, 0.0)))
             %b = tanh(add(sigmoid({z2}), max({z3}, 0.0)))
             %d = tanh(mul(tanh({z4}), sigmoid({z5})))
             %e = sigmoid(add(tanh({z6}), sigmoid({z7})))
             %n = mul(tanh(add(%a, %c)), %b)
             continue carry %n, tanh(mul(%n, tanh(add(%d, %e))))
           }}
           return add(%c9, %m9)
         }}"
    );
    // Blocks take the numbers of the state as they come, and wait for nothing else.
    let step = innermost(&loop_in(&schedule_of("nasrnn", &text)));
    assert_eq!(waits(&step), [""; 0], "{step:?}");
}

#[test]
fn seq2seq_gathers_twice_a_word() {
    let [i, f, c, o] = [0, 1, 2, 3].map(|k| gate("g", k, 256));
    let text = format!(
        "fn @main(%h0: f32[1,256], %c0: f32[1,256], %words: f32[3797,1024], %u: f32[256,1024], %b: f32[1024], %out: f32[256,3797], %bias: f32[3797], %room: i64[50]) -> (%tokens: i64[50], %last: f32[1,256]) {{
           %w9: i64[1], %h9: f32[1,256], %c9: f32[1,256], %tokens: i64[50], %go9: bool[] = loop %t trip 50 while const true carry (%w: i64[1] = const [1], %h: f32[1,256] = %h0, %c: f32[1,256] = %c0, %found: i64[50] = %room, %go: bool[] = const true) {{
             %g = add(add(gather(%words, %w, axis=0), dot(%h, %u)), %b)
             %d = add(mul(sigmoid({f}), %c), mul(sigmoid({i}), tanh({c})))
             %n = mul(sigmoid({o}), tanh(%d))
             %best = arg_reduce(add(dot(%n, %out), %bias), kind=max, axis=1, keep=false, last=false)
             %next = select(%go, %best, 0)
             %more = scatter_nd(%found, reshape(%t, [1,1]), %next)
             %on = and(%go, not(eq(reshape(%next, []), 0)))
             continue while %on carry %next, %n, %d, %more, %on
           }}
           return %tokens, %h9
         }}"
    );
    // Blocks take the numbers of the state, then those of the scores.
    let step = innermost(&loop_in(&schedule_of("seq2seq", &text)));
    assert_eq!(waits(&step), [""; 0], "{step:?}");
}

#[test]
fn attention_does_not_wait() {
    let text = "fn @main(%x: f32[1,12,1,64], %zero: f32[1,12,64,64], %wq: f32[12,64,64], %wk: f32[12,64,64], %wv: f32[12,64,64], %wo: f32[12,64,64]) -> (%y: f32[1,12,1,64]) {
           %y, %k9, %v9 = loop %t trip 64 carry (%a: f32[1,12,1,64] = %x, %k: f32[1,12,64,64] = %zero, %v: f32[1,12,64,64] = %zero) {
             %row = mul(const [0, 0, 1, 0], %t)
             %k1 = update_slice(%k, dot(%a, %wk), %row)
             %v1 = update_slice(%v, dot(%a, %wv), %row)
             %s = mul(dot(dot(%a, %wq), transpose(%k1, perm=[0,1,3,2])), 0.125)
             %seen = le(range(0, 64, 1), %t)
             %m = select(%seen, %s, -1000000000.0)
             %e = exp(sub(%m, reduce(%m, kind=max, axes=[3], keep=true)))
             %p = div(%e, reduce(%e, kind=sum, axes=[3], keep=true))
             continue carry dot(dot(%p, %v1), %wo), %k1, %v1
           }
           return %y
         }";
    let body = loop_in(&schedule_of("attention", text));
    assert_eq!(waits(&body), [""; 0], "{body:?}");
}
