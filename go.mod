module mediastack.dev

go 1.26.0
