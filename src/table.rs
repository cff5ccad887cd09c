//! Rows of words under each other, columns as wide as they need to be.

/// Lays out rows of equal length; numbers-like columns are the caller's `right` ones.
pub(crate) fn lay_out(rows: &[Vec<String>], right: &[usize]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|at| {
            rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        })
        .collect();
    rows.iter().map(|row| line(row, &widths, right)).collect()
}

fn line(row: &[String], widths: &[usize], right: &[usize]) -> String {
    let cells = row.iter().zip(widths).enumerate().map(|(at, (cell, width))| {
        if right.contains(&at) { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
    });
    let cells: Vec<String> = cells.collect();
    format!("{}\n", cells.join("  ").trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows =
            [vec!["a".to_owned(), "1".into(), "x".into()], vec!["bcd".into(), "100".into(), String::new()]];
        assert_eq!(lay_out(&rows, &[1]), "a      1  x\nbcd  100\n");
    }
}
