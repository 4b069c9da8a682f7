//! Typed ids and the dense arenas they index.
//!
//! Every entity of the IR is a `u32` index into an arena owned by one [`Function`](crate::Function)
//! or [`Module`](crate::Module): no reference counting and no lifetimes in the IR.

use std::fmt;
use std::hash::Hash;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// A typed index.
pub trait Entity: Copy + Eq + Hash + fmt::Debug {
    /// The id with this index.
    fn new(index: usize) -> Self;
    /// The id's index.
    fn index(self) -> usize;
}

/// Declares a typed id with the prefix that it is shown with.
#[macro_export]
macro_rules! entity {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u32);

        impl $crate::Entity for $name {
            fn new(index: usize) -> Self {
                assert!(index < u32::MAX as usize, "arena is full");
                Self(index as u32)
            }
            fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

entity!(
    /// An SSA value: a region's parameter or an instruction's result.
    Value, "v"
);
entity!(
    /// An instruction.
    Inst, "i"
);
entity!(
    /// A region: parameters, instructions in order, and the values it yields.
    Region, "r"
);
entity!(
    /// A function of a module.
    FuncId, "f"
);

/// A dense map from ids to what they stand for; ids are handed out by [`Arena::push`].
#[derive(Clone, Debug, PartialEq)]
pub struct Arena<K, V> {
    items: Vec<V>,
    key: PhantomData<K>,
}

impl<K: Entity, V> Arena<K, V> {
    /// An empty arena.
    pub const fn new() -> Self {
        Self {
            items: Vec::new(),
            key: PhantomData,
        }
    }

    /// Appends an item and returns its id.
    pub fn push(&mut self, item: V) -> K {
        let key = K::new(self.items.len());
        self.items.push(item);
        key
    }

    /// The number of items.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Is the arena empty?
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The item, if the id is one of this arena's.
    pub fn get(&self, key: K) -> Option<&V> {
        self.items.get(key.index())
    }

    /// Removes the items from this index on.
    pub fn truncate(&mut self, len: usize) {
        self.items.truncate(len);
    }

    /// All ids, in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = K> + use<K, V> {
        (0..self.items.len()).map(K::new)
    }

    /// All ids with their items, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (K, &V)> {
        self.items.iter().enumerate().map(|(i, v)| (K::new(i), v))
    }
}

impl<K: Entity, V> Default for Arena<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Entity, V> Index<K> for Arena<K, V> {
    type Output = V;
    fn index(&self, key: K) -> &V {
        &self.items[key.index()]
    }
}

impl<K: Entity, V> IndexMut<K> for Arena<K, V> {
    fn index_mut(&mut self, key: K) -> &mut V {
        &mut self.items[key.index()]
    }
}
