module github.com/appthrust/capt/dev

go 1.26.0
