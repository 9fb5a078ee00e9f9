//! Dividing a rectangle into rectangles that are as square as possible.

/// A rectangle in a picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rect {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Rect {
    pub(super) fn area(&self) -> f64 {
        self.width * self.height
    }

    /// Returns the rectangle without its margin; `None` if the margin covers all of it. The
    /// margin's width is `top` at the top, and `side` at the other sides.
    pub(super) fn inset(&self, side: f64, top: f64) -> Option<Rect> {
        let inner = Rect {
            x: self.x + side,
            y: self.y + top,
            width: self.width - 2.0 * side,
            height: self.height - top - side,
        };
        (inner.width > 0.0 && inner.height > 0.0).then_some(inner)
    }
}

/// Divides a rectangle into one rectangle for each size, with an area in proportion to the size.
/// The sizes must be in descending order. In the algorithm of Bruls, Huizing and van Wijk,
/// rectangles are added to a row along the shorter side as long as that makes them squarer.
pub(super) fn squarify(sizes: &[u64], within: Rect) -> Vec<Rect> {
    #[allow(clippy::cast_precision_loss, reason = "to be drawn")]
    let sizes: Vec<f64> = sizes.iter().map(|size| *size as f64).collect();
    let mut rects = Vec::with_capacity(sizes.len());
    let mut left: f64 = sizes.iter().sum();
    let mut free = within;
    let mut rest = &sizes[..];
    while let [first, ..] = rest
        && left > 0.0
        && free.area() > 0.0
    {
        let side = free.width.min(free.height);
        let scale = free.area() / left;
        let (mut row, mut sum, mut worst) = (0, 0.0, f64::INFINITY);
        for size in rest {
            let next = sum + size;
            let thick = next * scale / side;
            let ratio = |part: f64| {
                let long = part * scale / thick;
                (long / thick).max(thick / long)
            };
            let now = ratio(*first).max(ratio(*size));
            if now > worst || now.is_nan() {
                break;
            }
            (row, sum, worst) = (row + 1, next, now);
        }
        let row = row.max(1);
        let (parts, behind) = rest.split_at(row);
        let sum: f64 = parts.iter().sum();
        let thick = sum * scale / side;
        let mut along = 0.0;
        for part in parts {
            let long = if sum > 0.0 { part / sum * side } else { 0.0 };
            rects.push(if free.width >= free.height {
                Rect {
                    x: free.x,
                    y: free.y + along,
                    width: thick,
                    height: long,
                }
            } else {
                Rect {
                    x: free.x + along,
                    y: free.y,
                    width: long,
                    height: thick,
                }
            });
            along += long;
        }
        if free.width >= free.height {
            free.x += thick;
            free.width -= thick;
        } else {
            free.y += thick;
            free.height -= thick;
        }
        left -= sum;
        rest = behind;
    }
    // Parts that are too small to be drawn get a rectangle without area.
    let none = Rect {
        width: 0.0,
        height: 0.0,
        ..free
    };
    rects.resize(sizes.len(), none);
    rects
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: Rect = Rect {
        x: 10.0,
        y: 20.0,
        width: 600.0,
        height: 400.0,
    };

    #[test]
    fn areas_are_in_proportion_and_fill_the_rectangle_without_overlap() {
        for sizes in [
            &[6, 6, 4, 3, 2, 2, 1][..],
            &[1],
            &[1_000_000, 1, 1],
            &[5; 40],
            &[u64::MAX / 4, u64::MAX / 8, 3],
        ] {
            let rects = squarify(sizes, WHOLE);
            assert_eq!(rects.len(), sizes.len());
            #[allow(clippy::cast_precision_loss, reason = "compared roughly")]
            let total: f64 = sizes.iter().map(|size| *size as f64).sum();
            for (rect, size) in rects.iter().zip(sizes) {
                #[allow(clippy::cast_precision_loss, reason = "compared roughly")]
                let wanted = WHOLE.area() * *size as f64 / total;
                assert!((rect.area() - wanted).abs() < 1e-6 * WHOLE.area());
                assert!(rect.x >= WHOLE.x - 1e-6 && rect.y >= WHOLE.y - 1e-6);
                assert!(rect.x + rect.width <= WHOLE.x + WHOLE.width + 1e-6);
                assert!(rect.y + rect.height <= WHOLE.y + WHOLE.height + 1e-6);
            }
            for (at, a) in rects.iter().enumerate() {
                for b in &rects[at + 1..] {
                    let wide = (a.x + a.width).min(b.x + b.width) - a.x.max(b.x);
                    let high = (a.y + a.height).min(b.y + b.height) - a.y.max(b.y);
                    assert!(wide.min(high) < 1e-6, "{a:?} {b:?}");
                }
            }
        }
    }

    #[test]
    fn equal_parts_are_nearly_square() {
        for rect in squarify(&[7; 24], WHOLE) {
            let ratio = rect.width / rect.height;
            assert!((0.5..2.0).contains(&ratio), "{ratio}");
        }
    }

    #[test]
    fn nothing_is_cut_into_nothing() {
        assert!(squarify(&[], WHOLE).is_empty());
        assert!(
            squarify(&[0, 0], WHOLE)
                .iter()
                .all(|rect| rect.area() == 0.0)
        );
    }
}
