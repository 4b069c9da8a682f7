//! Strongly connected components of a graph.

/// The components of a graph whose nodes are the indices of `edges`, targets before sources.
///
/// Tarjan's algorithm with an explicit stack, because paths may be long.
pub fn strongly_connected(edges: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut state = vec![Visit::default(); edges.len()];
    let (mut stack, mut components, mut next) = (vec![], vec![], 0);
    for root in 0..edges.len() {
        if state[root].order.is_some() {
            continue;
        }
        let mut path = vec![(root, 0)];
        while let Some((node, done)) = path.pop() {
            if done == 0 {
                state[node] = Visit {
                    order: Some(next),
                    low: next,
                    open: true,
                };
                next += 1;
                stack.push(node);
            }
            if let Some(&target) = edges[node].get(done) {
                path.push((node, done + 1));
                match state[target] {
                    Visit { order: None, .. } => path.push((target, 0)),
                    Visit {
                        order: Some(order),
                        open: true,
                        ..
                    } => {
                        let low = &mut state[node].low;
                        *low = order.min(*low);
                    }
                    _ => {}
                }
                continue;
            }
            let Visit { order, low, .. } = state[node];
            if let Some(&(before, _)) = path.last() {
                let low_before = &mut state[before].low;
                *low_before = low.min(*low_before);
            }
            if order == Some(low) {
                let start = stack
                    .iter()
                    .rposition(|&n| n == node)
                    .expect("on the stack");
                let component = stack.split_off(start);
                for &n in &component {
                    state[n].open = false;
                }
                components.push(component);
            }
        }
    }
    components
}

#[derive(Clone, Copy, Default)]
struct Visit {
    order: Option<usize>,
    low: usize,
    open: bool,
}
