"""Where does GES lead? A map over problems, λ, step sizes and measures."""
